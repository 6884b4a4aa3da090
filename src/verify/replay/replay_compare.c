/* What the worker of a replay sends, against the records. */
#include "base/json.h"
#include "base/text.h"
#include "model/model.h"
#include "run/records.h"
#include "verify/replay/inner.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const struct rp_step_record *rp_replay_record(const struct rp_replaying *p, int64_t step)
{
    int64_t at = step - p->records->r[0].step; /* steps count up by one from the first record */
    return at >= 0 && at < p->records->n ? &p->records->r[at] : NULL;
}

static void compare_value(struct rp_replaying *p, int64_t step, const char *quantity, const char *was, const char *is)
{
    struct rp_replay_result *out = p->out;
    if (out->diverged || strcmp(was, is) == 0)
        return;
    out->diverged = 1;
    out->step = step;
    out->quantity = quantity;
    snprintf(out->recorded, sizeof out->recorded, "%s", was);
    snprintf(out->here, sizeof out->here, "%s", is);
}

static void compare_micro_loss(struct rp_replaying *p, int64_t step, const struct rp_step_record *r, int64_t micro,
                               const char *is)
{
    char was[32];
    if (p->out->diverged)
        return;
    rp_float_hex(was, rp_record_micro_losses(p->records, r)[micro]);
    compare_value(p, step, "micro_losses", was, is);
    p->out->micro = p->out->diverged ? micro : -1;
}

/* Those of a whole step, each followed by a blank or the end. */
static void compare_micro_losses(struct rp_replaying *p, const struct rp_replayed_frame *now, int64_t step,
                                 const struct rp_step_record *r)
{
    const char *is = now->micro_losses;
    for (int i = 0; is && i < p->records->micros; i++) {
        char one[32];
        const size_t n = strcspn(is, " ");
        snprintf(one, sizeof one, "%.*s", (int)(n < sizeof one ? n : sizeof one - 1), is);
        compare_micro_loss(p, step, r, i, one);
        is += n + (is[n] == ' ');
    }
}

static void compare_counters(struct rp_replaying *p, const struct rp_replayed_frame *now, int64_t step,
                             const struct rp_step_record *r)
{
    const struct rp_model *m = rp_model_of(&p->recipe);
    for (int i = 0; i < rp_model_counters(m); i++) {
        char was[24] = "", is[24];
        int at = rp_step_name_index(&p->records->counter, m->counter[i].name);
        const json_t *here = json_object_get(now->counters, m->counter[i].name);
        if (at >= 0)
            snprintf(was, sizeof was, "%" PRIu32, rp_record_counts(p->records, r)[at]);
        snprintf(is, sizeof is, "%" JSON_INTEGER_FORMAT, json_integer_value(here));
        compare_value(p, step, m->counter[i].name, was, is);
    }
}

static void compare_loss_parts(struct rp_replaying *p, const struct rp_replayed_frame *now, int64_t step,
                               const struct rp_step_record *r)
{
    const struct rp_model *m = rp_model_of(&p->recipe);
    for (int i = 0; i < rp_model_loss_parts(m); i++) {
        char was[32] = "";
        int at = rp_step_name_index(&p->records->part, m->loss_part[i]);
        const char *is = json_string_value(json_object_get(now->loss_parts, m->loss_part[i]));
        if (at >= 0)
            rp_float_hex(was, rp_record_loss_parts(p->records, r)[at]);
        compare_value(p, step, m->loss_part[i], was, is ? is : "");
    }
}

/* The first step of several is left out: it warms up. */
static void add_times(struct rp_replaying *p, const struct rp_replayed_frame *now, const struct rp_step_record *r)
{
    if (p->out->steps == 1)
        p->ns[0] = p->ns[1] = p->timed = 0;
    p->ns[0] += r->end_ns - r->start_ns;
    p->ns[1] += now->end_ns - now->start_ns;
    p->timed++;
    for (int i = 0; i < 2; i++)
        p->out->step_s[i] = (double)p->ns[i] / 1e9 / (double)p->timed;
}

/* Frames of single micro-batches: worker/job.h. */
static void compare_micro_batch(struct rp_replaying *p, const struct rp_replayed_frame *now)
{
    const struct rp_step_record *r = rp_replay_record(p, p->o->first);
    if (!r || p->out->diverged || p->out->micros == p->n_micro ||
        now->micro_batch != p->out->micro_batch[p->out->micros])
        return;
    compare_micro_loss(p, p->o->first, r, now->micro_batch, rp_text_or_empty(now->loss));
    p->out->micros += !p->out->diverged;
}

void rp_replay_compare_step(struct rp_replaying *p, const json_t *body)
{
    RP_READ(replayed_frame, now, body);
    if (now.micro_batch != RP_NO_INTEGER && p->of_micros) {
        compare_micro_batch(p, &now);
        return;
    }
    const int64_t own = now.step, step = p->o->first + own;
    const struct rp_step_record *r = rp_replay_record(p, step);
    if (!r)
        return;
    char rate[32] = "", scale[32] = "", loss[32] = "", overflow[4] = "", norm[32] = "", root[RP_SHA256_HEX],
         keyed[RP_SHA256_HEX];
    rp_record_root(root, p->records, r);
    rp_record_keyed_root(keyed, p->records, r);
    if (own >= 0) {
        snprintf(rate, sizeof rate, "%.17g", r->learning_rate);
        rp_float_hex(loss, r->loss);
        rp_float_hex(norm, r->grad_norm);
    }
    if (r->scale) {
        rp_float_hex(scale, rp_record_loss_scale(r));
        snprintf(overflow, sizeof overflow, "%d", r->overflow);
    }
    const struct {
        const char *key, *was;
    } rows[] = {{"learning_rate", rate}, {"loss_scale", scale}, {"loss", loss},      {"overflow", overflow},
                {"grad_norm", norm},     {"keyed_root", keyed}, {"state_root", root}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].was == loss && own >= 0) {
            compare_micro_losses(p, &now, step, r);
            compare_counters(p, &now, step, r);
            compare_loss_parts(p, &now, step, r);
        }
        const json_t *v = json_object_get(body, rows[i].key);
        char number[32];
        if (!v || !*rows[i].was)
            continue; /* not taken at this step, here or there */
        if (json_is_real(v))
            snprintf(number, sizeof number, "%.17g", json_real_value(v));
        else
            snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
        compare_value(p, step, rows[i].key, rows[i].was, json_is_string(v) ? json_string_value(v) : number);
        p->out->keyed += own >= 0 && strcmp(rows[i].key, "keyed_root") == 0;
        if (strcmp(rows[i].key, "state_root") != 0)
            continue;
        p->out->roots++;
        p->out->start_root |= own < 0;
        if (!p->out->diverged)
            p->out->agreed = step + 1;
    }
    if (own >= 0)
        add_times(p, &now, r);
    p->out->steps += own >= 0;
}

void rp_replay_name_tensor(struct rp_replaying *p)
{
    struct rp_replay_result *out = p->out;
    if (!out->diverged || strcmp(out->quantity, "state_root") != 0)
        return;
    const int first = out->step < 0, last = out->step == p->records->r[p->records->n - 1].step;
    const json_t *ours = first || last ? p->roots[!first] : NULL;
    for (int64_t i = 0; ours && i < p->run->tensor_root_n; i++) {
        const struct rp_tensor_root *theirs = &p->run->tensor_root[i];
        const char *root = first ? theirs->init : theirs->final,
                   *here = json_string_value(json_object_get(ours, theirs->name));
        if (!*root || (here && strcmp(here, root) == 0))
            continue;
        if (!out->tensors++)
            rp_ascii(out->tensor, sizeof out->tensor, theirs->name);
    }
}

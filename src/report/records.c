#include "report/records.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_MAX 1000000000000 /* samples or tokens of one step: sums of a whole run stay inside 64 bits */

void rp_records_fini(struct rp_records *rs)
{
    free(rs->r);
    *rs = (struct rp_records){0};
}

static int hex_float(char out[32], const json_t *j, const char *key, const char *what, struct rp_err *err)
{
    const char *text;
    char again[32];
    float x;
    if (rp_json_str(j, key, &text, what, err) < 0)
        return -1;
    if (strlen(text) >= 32 || rp_float_unhex(&x, text) < 0)
        return rp_fail(err, RP_MALFORMED, "%s: '%s' is not a hex float like 0x1.8p+1", what, key);
    if (!isfinite(x))
        return rp_fail(err, RP_MISMATCH, "%s: '%s' is %s; training would have stopped there", what, key, text);
    rp_float_hex(again, x);
    if (strcmp(again, text) != 0)
        return rp_fail(err, RP_MALFORMED, "%s: '%s' is '%s', which this program writes as '%s'", what, key, text, again);
    memcpy(out, text, strlen(text) + 1);
    return 0;
}

static int count(int64_t *out, const json_t *j, const char *key, int64_t lo, int64_t hi, const char *what, struct rp_err *err)
{
    if (rp_json_int(j, key, out, what, err) < 0)
        return -1;
    if (*out < lo || *out > hi)
        return rp_fail(err, RP_MALFORMED, "%s: '%s' is %" PRId64 ", outside %" PRId64 "..%" PRId64, what, key, *out, lo, hi);
    return 0;
}

/* A part of the loss, which nothing is computed from: spelled as any other float, or nan, or not there. */
static int loss_part(const json_t *j, const char *key, const char *what, struct rp_err *err)
{
    char ignored[32];
    const json_t *v = json_object_get(j, key);
    if (!v || (json_is_string(v) && strcmp(json_string_value(v), "nan") == 0))
        return 0;
    return hex_float(ignored, j, key, what, err);
}

static int state_root(struct rp_record *r, const json_t *j, int needed, const char *what, struct rp_err *err)
{
    const char *root;
    if (!needed && !json_object_get(j, "state_root"))
        return 0;
    if (rp_json_str(j, "state_root", &root, what, err) < 0 || count(&r->root_ns, j, "root_ns", 0, INT64_MAX, what, err) < 0)
        return -1;
    if (!rp_is_sha256(root))
        return rp_fail(err, RP_MALFORMED, "%s: 'state_root' is not 64 lower-case hex digits", what);
    memcpy(r->state_root, root, sizeof r->state_root);
    return 0;
}

static int parse_step(struct rp_record *r, const json_t *j, const char *what, struct rp_err *err)
{
    const char *phase;
    if (rp_json_int(j, "step", &r->step, what, err) < 0 || rp_json_str(j, "phase", &phase, what, err) < 0)
        return -1;
    if (strcmp(phase, "init") == 0) {
        if (r->step != -1)
            return rp_fail(err, RP_MALFORMED, "%s: phase 'init' is step -1, not %" PRId64, what, r->step);
        return state_root(r, j, 1, what, err);
    }
    r->timed = strcmp(phase, "timed") == 0;
    if (!r->timed && strcmp(phase, "warm-up") != 0)
        return rp_fail(err, RP_MALFORMED, "%s: 'phase' is none of init, warm-up, timed", what);
    if (count(&r->repeat, j, "repeat", 0, COUNT_MAX, what, err) < 0 || count(&r->start_ns, j, "start_ns", 0, INT64_MAX, what, err) < 0 ||
        count(&r->end_ns, j, "end_ns", 0, INT64_MAX, what, err) < 0 || count(&r->samples, j, "samples", 1, COUNT_MAX, what, err) < 0 ||
        count(&r->padded_tokens, j, "padded_tokens", 0, COUNT_MAX, what, err) < 0 ||
        count(&r->tokens, j, "tokens", 0, r->padded_tokens, what, err) < 0 || hex_float(r->loss, j, "loss", what, err) < 0 ||
        hex_float(r->grad_norm, j, "grad_norm", what, err) < 0 || loss_part(j, "mlm_loss", what, err) < 0 ||
        loss_part(j, "nsp_loss", what, err) < 0)
        return -1;
    return state_root(r, j, 0, what, err);
}

/* r follows before, or is the first: steps count up by one, time does not run backwards, a root fits between its neighbours. */
static int in_order(const struct rp_record *before, const struct rp_record *r, const char *what, struct rp_err *err)
{
    int64_t expected = before ? before->step + 1 : r->step < 0 ? -1 : 0;
    if (r->step != expected)
        return rp_fail(err, RP_MALFORMED, "%s: step %" PRId64 "; expected %" PRId64, what, r->step, expected);
    if (r->step < 0)
        return 0;
    if (r->end_ns <= r->start_ns)
        return rp_fail(err, RP_MISMATCH, "%s: step %" PRId64 " ends before it starts", what, r->step);
    if (!before || before->step < 0)
        return 0;
    if (r->start_ns < before->end_ns)
        return rp_fail(err, RP_MISMATCH, "%s: step %" PRId64 " starts before step %" PRId64 " ends", what, r->step, before->step);
    if (before->root_ns > r->start_ns - before->end_ns)
        return rp_fail(err, RP_MISMATCH,
                       "%s: the state root of step %" PRId64 " says %" PRId64 " ns and the next step starts after %" PRId64 " ns", what,
                       before->step, before->root_ns, r->start_ns - before->end_ns);
    return 0;
}

static int add_line(struct rp_records *rs, const char *line, size_t size, int64_t *room, struct rp_err *err)
{
    char what[64];
    struct rp_record r = {0};
    snprintf(what, sizeof what, "steps/rank0.jsonl:%" PRId64, rs->n + 1);
    RP_JSON *j = rp_json_parse(line, size, what, err);
    if (!j || parse_step(&r, j, what, err) < 0 || in_order(rs->n ? &rs->r[rs->n - 1] : NULL, &r, what, err) < 0)
        return -1;
    if (rs->n == *room) {
        *room = *room ? 2 * *room : 64;
        rs->r = rp_realloc(rs->r, (size_t)*room * sizeof *rs->r);
    }
    rs->r[rs->n++] = r;
    return 0;
}

int rp_records_parse(struct rp_records *out, const char *text, size_t size, struct rp_err *err)
{
    int64_t room = 0;
    *out = (struct rp_records){0};
    rp_sha256_hex(out->sha256, text, size);
    for (size_t at = 0; at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        int failed = !end ? rp_fail(err, RP_MALFORMED, "steps/rank0.jsonl:%" PRId64 ": the last line has no end", out->n + 1)
                          : add_line(out, text + at, (size_t)(end - text) - at, &room, err);
        if (failed) {
            rp_records_fini(out);
            return -1;
        }
        at = (size_t)(end - text) + 1;
    }
    return 0;
}

int rp_records_match(const struct rp_records *rs, const struct rp_recipe *r, int complete, struct rp_err *err)
{
    int64_t first = rs->n && rs->r[0].step < 0, steps = rs->n - first;
    int64_t all = r->measure_warmup_steps + r->measure_repeats * r->measure_timed_steps;
    if (steps > all || (complete && steps != all))
        return rp_fail(err, RP_MISMATCH, "%" PRId64 " steps are recorded; the recipe asks for %" PRId64, steps, all);
    if (complete && (!first || !rs->r[rs->n - 1].state_root[0]))
        return rp_fail(err, RP_MISMATCH, "a complete run has a state root before its first and after its last step");
    for (int64_t i = first; i < rs->n; i++) {
        const struct rp_record *s = &rs->r[i];
        int64_t timed = s->step - r->measure_warmup_steps, repeat = timed < 0 ? 0 : timed / r->measure_timed_steps;
        if (s->timed != (timed >= 0) || s->repeat != repeat)
            return rp_fail(err, RP_MISMATCH, "step %" PRId64 " is recorded in another phase or repeat than the recipe gives it", s->step);
        if (s->samples != rs->r[first].samples)
            return rp_fail(err, RP_MISMATCH, "step %" PRId64 " trained %" PRId64 " samples, the first %" PRId64, s->step, s->samples,
                           rs->r[first].samples);
        if (s->padded_tokens != s->samples * r->task_seq_length)
            return rp_fail(err, RP_MISMATCH,
                           "step %" PRId64 " has %" PRId64 " tokens with padding; %" PRId64 " samples of %" PRId64 " have %" PRId64,
                           s->step, s->padded_tokens, s->samples, r->task_seq_length, s->samples * r->task_seq_length);
        int64_t expected = r->train_batch_size * r->train_accumulation_steps * r->parallel_data;
        if (expected && s->samples != expected)
            return rp_fail(err, RP_MISMATCH, "step %" PRId64 " trained %" PRId64 " samples; the recipe gives %" PRId64, s->step,
                           s->samples, expected);
    }
    return 0;
}

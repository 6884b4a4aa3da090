#include "verify/levels.h"

#include "base/json.h"
#include "base/text.h"
#include "verify/challenge/draw.h"
#include "verify/state.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define RP_LEVEL_NAME(name) #name,
static const char *const names[] = {RP_LEVELS(RP_LEVEL_NAME)};

int rp_level_find(const char *name)
{
    for (int i = 0; i < RP_LEVEL_COUNT; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

double rp_level_undetected(const struct rp_verification *v)
{
    if (v->run && v->replayed >= rp_figures_steps(&v->run->figures) && v->replayed > 0)
        return 0;
    return v->drawn && v->replayed > 0 ? v->undetected : 1;
}

#define NEVER "never of a command: this program did not train it, and its figures are " RP_MEASURED_BY_LOG

static int is_command(const struct rp_verification *v)
{
    return v->run && v->run->command;
}

static void judge_computed(struct rp_level *l, const struct rp_verification *v)
{
    if (is_command(v)) {
        RP_FORMAT(l->text, NEVER);
        return;
    }
    int64_t all = rp_figures_steps(&v->run->figures), last = v->replay_from + v->replayed - 1;
    char which[64] = "", drawn[240] = "";
    if (v->replayed_parts > 1)
        RP_FORMAT(which, "%" PRId64 " of %" PRId64 " parts", v->replayed_parts, v->parts);
    else if (last > v->replay_from)
        RP_FORMAT(which, "%" PRId64 " to %" PRId64, v->replay_from, last);
    else
        RP_FORMAT(which, "%" PRId64, v->replay_from);
    if (v->drawn)
        RP_FORMAT(drawn, ", drawn by a challenge made after the bundle, by %s", v->drawn_by);
    l->state = !v->replayed ? RP_LEVEL_NO : v->replayed >= all ? RP_LEVEL_YES : RP_LEVEL_PART;
    if (l->state == RP_LEVEL_YES)
        RP_FORMAT(l->text, "all %" PRId64 " step%s trained again here, with the same bits", all, rp_s(all));
    else if (l->state == RP_LEVEL_PART)
        RP_FORMAT(l->text, "%" PRId64 " of %" PRId64 " steps (%s%s) trained again here, with the same bits",
                  v->replayed, all, which, drawn);
    else if (v->micros)
        RP_FORMAT(l->text,
                  "no step trained again here, only %" PRId64 " of %" PRId64 " forward passes of step %" PRId64
                  ": --replay K",
                  v->micros, v->of_micros, v->replay_from);
    else
        RP_FORMAT(l->text, "no step trained again here: --replay K");
}

/* "of 64 parts 7 were drawn: a run that skipped half of its work would pass with a probability of 1 in 184" */
static void describe_odds(char *out, size_t size, const struct rp_verification *v)
{
    const double p = rp_level_undetected(v);
    *out = 0;
    if (!v->drawn || p >= 1 || !v->parts)
        return;
    if (p > 0)
        snprintf(out, size,
                 "of %" PRId64 " parts %" PRId64
                 " were drawn: a run that skipped half of its work would pass with a probability of 1 in %.0f",
                 v->parts, v->replayed_parts, floor(1 / p));
    else
        snprintf(out, size,
                 "of %" PRId64 " parts %" PRId64 " were drawn: a run that skipped half of its work would not pass",
                 v->parts, v->replayed_parts);
}

/* Why work may have been saved, as "if ..., "; "": it was not. Without a replay nothing shows that there was work to
 * time; the first steps alone are what a cheat would compute; and a recipe of the signer's own may leave little to
 * compute. */
static void find_condition(char *out, size_t size, const struct rp_verification *v)
{
    const double p = rp_level_undetected(v);
    *out = 0;
    if (!v->replayed)
        snprintf(out, size, "if the steps were computed (--draw, --replay), ");
    else if (p >= 1)
        snprintf(out, size, "if all steps were computed (--draw, made after --received), ");
    else if (p > RP_ODDS_MOST)
        snprintf(out, size,
                 "if all steps were computed (at most 1 in %.0f is accepted: draw more parts with --draws), ",
                 1 / RP_ODDS_MOST);
    else if (v->timed.claimed)
        snprintf(out, size, "if the public value was published as given (its signature was not checked), ");
    else if (*v->own_setting)
        snprintf(out, size, "if %s of the signer's own leaves the work of a known recipe, ", v->own_setting);
    else if (v->from_file)
        snprintf(out, size, "if the file that the run starts from leaves the work of an ordinary state, ");
    else if (v->needed > 0 && v->needed < RP_NEEDED_LEAST)
        snprintf(out, size,
                 "if products with a factor of 0 or without effect were computed (%.0f %% of those of an untrained "
                 "state are needed), ",
                 100 * v->needed);
    else if (v->repeated > RP_REPEATED_MOST)
        snprintf(out, size,
                 "if samples that a step has twice were computed twice (%.0f %% of all, without dropout or crops), ",
                 100 * v->repeated);
}

static void judge_timed(struct rp_level *l, const struct rp_verification *v)
{
    const struct rp_timed *t = &v->timed;
    char unless[180], odds[180];
    if (is_command(v)) {
        RP_FORMAT(l->text, NEVER);
        return;
    }
    if (t->rate <= 0) {
        RP_FORMAT(l->text, "%s",
                  *t->before_by ? t->before_by : "the run answers no challenge: only its signer's clock bounds it");
        return;
    }
    find_condition(unless, sizeof unless, v);
    describe_odds(odds, sizeof odds, v);
    l->state = !v->replayed ? RP_LEVEL_NO : *unless ? RP_LEVEL_PART : RP_LEVEL_YES;
    RP_FORMAT(l->text, "%sat least %.4g %s over the whole run: %" PRId64 " samples in at most %.0f s, %s, %.60s%s%s",
              unless, t->rate, v->run->figures.results.throughput.unit, t->samples, t->seconds, t->before_by,
              t->after_by, *odds ? "; " : "", odds);
}

static void judge_claimed_of_command(struct rp_level *l, const struct rp_verification *v)
{
    const char *unit;
    const double rate = rp_run_throughput(v->run, &unit);
    char speed[160] = "";
    if (!isnan(rate))
        RP_FORMAT(speed, "%.3f %.40s, " RP_MEASURED_BY_LOG "; ", rate, unit);
    else if (!isnan(rp_run_minutes(v->run)))
        RP_FORMAT(speed, "%.3f minutes to train, " RP_MEASURED_BY_LOG "; ", rp_run_minutes(v->run));
    RP_FORMAT(l->text, "the signer's word: %swhat the command did and wrote, on %s; captures, place in the ledger",
              speed, v->place.text);
}

static void judge_claimed(struct rp_level *l, const struct rp_verification *v)
{
    if (is_command(v)) {
        judge_claimed_of_command(l, v);
        return;
    }
    const struct rp_throughput_figures *t = &v->run->figures.results.throughput;
    char speed[80] = "", precision[RP_PRECISION_TEXT], tensor_cores[RP_TENSOR_CORES_TEXT];
    if (!isnan(t->value))
        RP_FORMAT(speed, "%.3f %s by ", t->value, t->unit);
    rp_figures_precision(precision, &v->run->figures);
    rp_tensor_cores_text(tensor_cores, &v->run->facts, &v->run->figures);
    RP_FORMAT(l->text, "the signer's word: %s%s%s%s%s%s; step times, captures, place in the ledger", speed,
              v->place.text, *precision ? ", in " : "", precision, *tensor_cores ? "; " : "", tensor_cores);
}

/* Names the checks in that state, and returns how many there are. */
static int name_checks(struct rp_buf *out, const struct rp_verification *v, enum rp_check_state state,
                       const char *between)
{
    int n = 0;
    for (int i = 0; i < RP_CHECK_COUNT; i++)
        if (v->check[i].state == state)
            rp_buf_printf(out, "%s%s", n++ ? between : "", v->check[i].name);
    return n;
}

void rp_level_warnings(struct rp_buf *out, const struct rp_verification *v)
{
    name_checks(out, v, RP_CHECK_WARNING, ", ");
}

struct rp_level rp_level_of(const struct rp_verification *v, enum rp_level_id id)
{
    struct rp_level l = {.name = names[id]};
    const int known = v->standing >= RP_STANDING_TRUSTED;
    const struct rp_check_counts n = rp_check_counts(v);
    RP_BUF warnings = {0};
    char notes[32];
    if (!rp_verdict_shows(v->verdict)) {
        RP_FORMAT(l.text, v->verdict == RP_VERDICT_FAILED ? "a check failed" : "not checked");
        return l;
    }
    switch (id) {
    case RP_LEVEL_authentic:
        l.state = known ? RP_LEVEL_YES : RP_LEVEL_NO;
        RP_FORMAT(l.text, "signed by %s, %.300s", v->fingerprint,
                  known ? v->check[RP_CHECK_key].text : "which is unknown here");
        break;
    case RP_LEVEL_consistent:
        l.state = n.of[RP_CHECK_WARNING] ? RP_LEVEL_PART : RP_LEVEL_YES;
        name_checks(&warnings, v, RP_CHECK_WARNING, ", ");
        RP_FORMAT(l.text, "%s: %d of %d checks passed%s%s%.200s",
                  is_command(v) ? "figures follow from the signed log of the command"
                                : "figures and plan follow from the signed records",
                  n.of[RP_CHECK_PASSED], n.applicable,
                  n.of[RP_CHECK_NOTE] ? RP_FORMAT(notes, ", %d note%s", n.of[RP_CHECK_NOTE], rp_s(n.of[RP_CHECK_NOTE]))
                                      : "",
                  !n.of[RP_CHECK_WARNING]      ? ""
                  : n.of[RP_CHECK_WARNING] > 1 ? "; with warnings: "
                                               : "; with a warning: ",
                  rp_buf_text(&warnings));
        break;
    case RP_LEVEL_computed:
        judge_computed(&l, v);
        break;
    case RP_LEVEL_timed:
        judge_timed(&l, v);
        break;
    default:
        judge_claimed(&l, v);
    }
    return l;
}

static const char *const states[] = {"no", "part", "yes"};

json_t *rp_levels_json(const struct rp_verification *v)
{
    json_t *j = json_object();
    for (int i = 0; i < RP_LEVEL_COUNT; i++) {
        struct rp_level l = rp_level_of(v, (enum rp_level_id)i);
        json_object_set_new(
            j, l.name,
            json_pack("{s:s*, s:s}", "reached", i == RP_LEVEL_claimed ? NULL : states[l.state], "text", l.text));
    }
    return j;
}

/* ": digests and 2 other checks" */
static void name_failed(struct rp_buf *out, const struct rp_verification *v)
{
    int n = 0;
    for (int i = 0; i < RP_CHECK_COUNT; i++)
        if (v->check[i].state == RP_CHECK_FAILED && !n++)
            rp_buf_printf(out, ": %s", v->check[i].name);
    if (n > 1)
        rp_buf_printf(out, " and %d other check%s", n - 1, rp_s(n - 1));
}

/* " (min_steps, complete)" */
static void name_broken_rules(struct rp_buf *out, const struct rp_verification *v)
{
    const char *between = " (";
    for (int64_t i = 0; v->policy && i < v->policy->row_n; i++)
        if (!v->policy->row[i].holds) {
            rp_buf_printf(out, "%s%s", between, v->policy->row[i].rule);
            between = ", ";
        }
    rp_buf_puts(out, ")");
}

static void put_verdict(struct rp_buf *out, const struct rp_verification *v)
{
    rp_buf_puts(out, rp_verdict_text(v->verdict));
    if (v->verdict == RP_VERDICT_FAILED)
        name_failed(out, v);
    else if (v->verdict < RP_VERDICT_POLICY)
        rp_buf_printf(out, ": %s", v->why);
    else if (v->verdict == RP_VERDICT_POLICY)
        name_broken_rules(out, v);
    else if (v->verdict == RP_VERDICT_INCOMPLETE && v->standing == RP_STANDING_UNKNOWN)
        rp_buf_puts(out, ", and the key is unknown");
    else if (v->standing == RP_STANDING_ANY)
        rp_buf_puts(out, ", by any key");
    else if (v->standing == RP_STANDING_OWN)
        rp_buf_puts(out, ", signed by your own key");
}

/* " with 2 warnings (same_host, outliers)" */
static void put_warnings(struct rp_buf *out, const struct rp_verification *v)
{
    RP_BUF which = {0};
    const int n = name_checks(&which, v, RP_CHECK_WARNING, ", ");
    rp_buf_printf(out, " with %d warning%s (%s)", n, rp_s(n), rp_buf_text(&which));
}

void rp_levels_line(struct rp_buf *out, const struct rp_verification *v)
{
    int n = 0;
    enum rp_level_state reached[RP_LEVEL_claimed];
    put_verdict(out, v);
    if (v->verdict < RP_VERDICT_POLICY)
        return;
    const char *unit = v->run->figures.results.throughput.unit;
    rp_buf_puts(out, ": ");
    for (int i = 0; i < RP_LEVEL_claimed; i++) {
        struct rp_level l = rp_level_of(v, (enum rp_level_id)i);
        reached[i] = l.state;
        if (l.state != RP_LEVEL_NO)
            rp_buf_printf(out, "%s%s", n++ ? ", " : "", l.name);
        if (i == RP_LEVEL_consistent && l.state == RP_LEVEL_PART)
            put_warnings(out, v);
        else if (l.state == RP_LEVEL_PART)
            rp_buf_puts(out, " in part");
    }
    if (is_command(v)) {
        rp_buf_puts(out, v->run->observed->log && v->run->observed->log->read
                             ? "; " RP_MEASURED_BY_LOG "; claimed: the log, machine"
                             : "; no figure of speed; claimed: machine");
        return;
    }
    rp_buf_puts(out, "; claimed: ");
    if (reached[RP_LEVEL_timed] == RP_LEVEL_YES)
        rp_buf_printf(out, "speed beyond %.4g %s", v->timed.rate, unit);
    else if (v->timed.rate > 0)
        rp_buf_printf(out, "speed (at least %.4g %s if its steps were computed)", v->timed.rate, unit);
    else
        rp_buf_puts(out, "speed");
    rp_buf_printf(out, ", machine%s", reached[RP_LEVEL_computed] == RP_LEVEL_YES    ? ""
                                      : reached[RP_LEVEL_computed] == RP_LEVEL_PART ? ", other losses"
                                                                                    : ", losses");
}

/* What was measured beside the steps: ceilings before and after them, samples of the device. */
#include "base/json.h"
#include "base/text.h"
#include "report/ceilings.h"
#include "report/samples.h"
#include "verify/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CLOCKS_APART 1.001 /* two quartzes, or two readings of one */
#define WALL_SLACK_S 1.001 /* the time of day may be moved against the monotonic clock */
#define WALL_DRIFT 1.01
#define PERIOD_S (RP_SAMPLE_PERIOD_NS / 1e9)

static int is_cpu(const struct rp_verify_state *s)
{
    return strcmp(json_string_value(json_object_get(s->run, "backend")), "cpu") == 0;
}

/* Nanoseconds of all repetitions. */
static double spent(const json_t *node)
{
    const char *key;
    json_t *part;
    size_t i;
    double sum = 0;
    json_array_foreach(json_object_get(node, "ns"), i, part)
        sum += json_number_value(part);
    json_object_foreach((json_t *)node, key, part)
        sum += json_is_object(part) ? spent(part) : 0;
    return sum;
}

static int no_ceilings(const struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const json_t *asked = rp_verify_setting(s, "measure.ceilings");
    int complete = strcmp(json_string_value(json_object_get(s->run, "status")), "complete") == 0;
    if (json_is_true(asked) && complete)
        return rp_fail(err, RP_MISMATCH, "the settings asked for ceilings (measure.ceilings), and run.json has none");
    rp_check_say(result, json_is_true(asked) ? "none: the run ended before they were measured" : "not asked for (measure.ceilings)");
    return 0;
}

static int check_share(const struct rp_verify_state *s, const json_t *is, struct rp_check_result *result, struct rp_err *err)
{
    const json_t *both[] = {json_object_get(is, "before"), json_object_get(is, "after")};
    const json_t *share = json_object_get(json_object_get(is, "achieved"), "gemm_share");
    double slack = is_cpu(s) ? RP_CEILING_SLACK_CPU : RP_CEILING_SLACK_DEVICE, value = json_number_value(share);
    if (json_is_null(both[0]) || json_is_null(both[1])) { /* a clock may still rise after the first */
        result->state = RP_CHECK_NOTE;
        rp_check_say(result, "not measured %s the run: what it achieved is held against nothing",
                     json_is_null(both[0]) ? "before" : "after");
        return 0;
    }
    if (value > slack)
        return rp_fail(err, RP_MISMATCH, "the run achieved %.2f times what its own matrix product did at best; at most %.2f is believed",
                       value, slack);
    if (value > 1)
        result->state = RP_CHECK_NOTE;
    if (json_is_number(share))
        rp_check_say(result, "the run achieved %.3f of its matrix product's ceiling%s", value,
                     value > 1 ? ": something else ran when that was measured, or the model's shapes are faster" : "");
    return 0;
}

int rp_check_ceilings(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    char text[400];
    const json_t *is = json_object_get(s->run, "ceilings"), *phase = json_object_get(json_object_get(s->run, "phases_s"), "ceilings");
    if (!is)
        return no_ceilings(s, result, err);
    if (json_is_false(rp_verify_setting(s, "measure.ceilings")))
        return rp_fail(err, RP_MISMATCH, "the settings turned ceilings off (measure.ceilings), and run.json has some");
    RP_JSON *again = rp_ceilings_json(is, json_object_get(s->run, "results"));
    if (rp_check_differ(text, sizeof text, is, again))
        return rp_fail(err, RP_MISMATCH, "rates do not follow from the repetitions: ceilings/%s", text);
    if (phase && spent(is) / 1e9 > json_number_value(phase) * CLOCKS_APART + 1e-3)
        return rp_fail(err, RP_MISMATCH, "the phase 'ceilings' took %.3f s, and its repetitions %.3f s", json_number_value(phase),
                       spent(is) / 1e9);
    return check_share(s, is, result, err);
}

/* ---- samples ---- */

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Steps and samples are of one clock: together they span no more than the run, and samples come no faster than they are taken. */
static int check_times(const struct rp_verify_state *s, const struct rp_samples *is, struct rp_err *err)
{
    const struct rp_records *rs = &s->records;
    double elapsed = json_number_value(json_object_get(s->run, "elapsed_s"));
    double first = (double)rp_sample_ns(is, 0) / 1e9, last = (double)rp_sample_ns(is, is->n - 1) / 1e9, begin = first, end = last;
    if ((double)((is->n - 1) * is->every) * PERIOD_S > (last - first) * WALL_DRIFT + 2 * PERIOD_S)
        return rp_fail(err, RP_MISMATCH, "%" PRId64 " samples in %.3f s: they are taken every %.1f s", (is->n - 1) * is->every,
                       last - first, PERIOD_S);
    for (int64_t i = 0; i < rs->n; i++)
        if (rs->r[i].step >= 0) {
            begin = smaller(begin, (double)rs->r[i].start_ns / 1e9);
            end = larger(end, (double)rs->r[i].end_ns / 1e9);
        }
    if (end - begin > elapsed * WALL_DRIFT + WALL_SLACK_S)
        return rp_fail(err, RP_MISMATCH, "steps and samples span %.3f s and the whole run took %.3f s", end - begin, elapsed);
    return 0;
}

/* Samples that the timed windows have room for. */
static double expected(const struct rp_verify_state *s, int64_t every)
{
    int64_t begin = -1, end = -1;
    for (int64_t i = 0; i < s->records.n; i++)
        if (s->records.r[i].timed) {
            begin = begin < 0 ? s->records.r[i].start_ns : begin;
            end = s->records.r[i].end_ns;
        }
    return (double)(end - begin) / 1e9 / PERIOD_S / (double)every;
}

int rp_verify_few_samples(const struct rp_verify_state *s)
{
    const json_t *is = json_object_get(s->run, "samples");
    double timed = json_number_value(json_object_get(is, "timed"));
    return timed == 0 || timed < expected(s, json_integer_value(json_object_get(is, "every"))) / 2 - 2;
}

int rp_verify_harmless(const char *reason)
{
    static const char *const harmless[] = {"gpu_idle", "applications_clocks_setting", "sync_boost", "display_clock_setting"};
    return RP_IS_IN(harmless, reason, strlen(reason));
}

/* What a reader of the figures should know: throttling, and too few samples. */
static void remark(const struct rp_verify_state *s, const json_t *is, struct rp_check_result *result)
{
    char text[300] = "";
    const char *name;
    json_t *share;
    int64_t timed = json_integer_value(json_object_get(is, "timed"));
    size_t n = 0;
    json_object_foreach(json_object_get(is, "throttle"), name, share)
    {
        if (!rp_verify_harmless(name) && n < sizeof text)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%.40s in %.0f %%", n ? ", " : "", name, 100 * json_number_value(share));
    }
    double room = expected(s, json_integer_value(json_object_get(is, "every")));
    int few = rp_verify_few_samples(s);
    if (few || *text)
        result->state = RP_CHECK_NOTE;
    if (few)
        rp_check_say(result, "%" PRId64 " in the timed windows, which have room for %.0f: little is known%s%s", timed, room,
                     *text ? "; throttled: " : "", text);
    else
        rp_check_say(result, "%" PRId64 " in the timed windows%s%s", timed, *text ? "; throttled: " : ", no throttling", text);
}

static int check_them(struct rp_verify_state *s, const struct rp_buf *bytes, struct rp_check_result *result, struct rp_err *err)
{
    char text[400];
    const json_t *is = json_object_get(s->run, "samples");
    if (rp_samples_parse(&s->samples, rp_buf_text(bytes), bytes->size, err) < 0)
        return -1;
    int failed = s->samples.n < 1 ? rp_fail(err, RP_MALFORMED, "the samples have no line") < 0 : check_times(s, &s->samples, err) < 0;
    RP_JSON *again = failed ? NULL : rp_samples_json(&s->samples, &s->records);
    if (!failed && rp_check_differ(text, sizeof text, is, again))
        failed = rp_fail(err, RP_MISMATCH, "run.json does not follow from the samples: samples/%s", text) < 0;
    if (!failed)
        remark(s, is, result);
    return failed ? -1 : 0;
}

int rp_check_samples(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const char *name = RP_OF_RANK(0, ".samples.jsonl");
    const struct rp_member *m = rp_bundle_find(&s->bundle, name);
    const json_t *is = json_object_get(s->run, "samples"), *reason = json_object_get(is, "reason");
    if (is_cpu(s) && (is || m))
        return rp_fail(err, RP_MISMATCH, "there are samples of a device, and the CPU backend trained");
    if (m && !is)
        return rp_fail(err, RP_MISMATCH, "%s is there, and run.json has no figures of it", name);
    if (is && !reason != (m != NULL))
        return rp_fail(err, RP_MISMATCH, "run.json has %s samples, and %s is %sthere", reason ? "no" : "figures of", name,
                       m ? "" : "not ");
    if (m)
        return check_them(s, &m->bytes, result, err);
    if (!is_cpu(s))
        result->state = RP_CHECK_NOTE;
    if (reason)
        rp_check_say(result, "none: %.300s", json_string_value(reason));
    else
        rp_check_say(result, is_cpu(s) ? "none: nothing is sampled on processors" : "none");
    return 0;
}

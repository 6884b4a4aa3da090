/* Measurements besides the steps: ceilings before and after, device telemetry. */
#include "base/json.h"
#include "report/ceilings.h"
#include "report/telemetry.h"
#include "verify/state.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define CLOCKS_APART 1.001 /* two oscillators, or two readings of one */
#define WALL_SLACK_S 1.001 /* the wall clock may be adjusted against the monotonic clock */
#define WALL_DRIFT 1.01
#define SAMPLES_ENOUGH 8 /* a window this long has some, even if the first are late */
#define PERIOD_S (RP_TELEMETRY_PERIOD_NS / 1e9)

static int is_cpu(const struct rp_verify_state *s)
{
    return strcmp(json_string_value(json_object_get(s->run, "backend")), "cpu") == 0;
}

/* What a complete run on a GPU always has: worth a warning where it is missing, whatever the reason, as its absence helps a forger too. */
static int is_complete_gpu(const struct rp_verify_state *s)
{
    return !is_cpu(s) && rp_verify_complete(s);
}

/* Nanoseconds of all repetitions. */
static double sum_repetitions(const json_t *node)
{
    const char *key;
    json_t *part;
    size_t i;
    double sum = 0;
    json_array_foreach(json_object_get(node, "ns"), i, part)
        sum += json_number_value(part);
    json_array_foreach(json_object_get(node, "exchange"), i, part)
        sum += sum_repetitions(part);
    json_object_foreach((json_t *)node, key, part)
        sum += json_is_object(part) ? sum_repetitions(part) : 0;
    return sum;
}

static int check_no_ceilings(const struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const json_t *asked = rp_run_setting(s->run, "measure.ceilings");
    int complete = strcmp(json_string_value(json_object_get(s->run, "status")), "complete") == 0;
    if (json_is_true(asked) && complete)
        return rp_fail(err, RP_MISMATCH, "the settings require ceilings (measure.ceilings), but run.json has none");
    return rp_check_text(result, json_is_true(asked) ? "none: the run ended before they were measured" : "turned off (measure.ceilings)");
}

static int check_share(const struct rp_verify_state *s, const json_t *is, struct rp_check_result *result, struct rp_err *err)
{
    const json_t *both[] = {json_object_get(is, "before"), json_object_get(is, "after")};
    const json_t *share = json_object_get(json_object_get(is, "achieved"), "gemm_share");
    double slack = is_cpu(s) ? RP_CEILING_SLACK_CPU : RP_CEILING_SLACK_DEVICE, value = json_number_value(share);
    if (value > slack)
        return rp_fail(err, RP_MISMATCH, "the run achieved %.2f of its own GEMM ceiling; at most %.2f is plausible",
                       value, slack);
    for (int i = 0; i < 2 && is_complete_gpu(s); i++)
        if (!json_is_object(json_object_get(both[i], "host_to_device")))
            return rp_check_warn(result, "ceilings/%s has no rate of uploads, which every GPU has", i ? "after" : "before");
    if (json_is_null(both[0]) || json_is_null(both[1])) /* the clock may rise after the first measurement */
        return rp_check_note(result, "not measured %s the run: the run is not compared with a ceiling",
                             json_is_null(both[0]) ? "before" : "after");
    if (!json_is_number(share))
        return rp_check_note(result, "the run is not compared with its GEMM ceiling, of which it has no share");
    if (value > 1)
        return rp_check_note(result, "the run achieved %.3f of its GEMM ceiling: other work ran while the ceiling was measured, or the "
                                     "model's shapes are faster",
                             value);
    return rp_check_text(result, "the run achieved %.3f of its GEMM ceiling", value);
}

int rp_check_ceilings(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    char text[400];
    const json_t *is = json_object_get(s->run, "ceilings"), *phase = json_object_get(json_object_get(s->run, "phases_s"), "ceilings");
    if (!is)
        return check_no_ceilings(s, result, err);
    if (json_is_false(rp_run_setting(s->run, "measure.ceilings")))
        return rp_fail(err, RP_MISMATCH, "the settings turn ceilings off (measure.ceilings), but run.json has them");
    RP_JSON *again = rp_ceilings_json(is, json_object_get(s->run, "results"), json_object_get(s->run, "world"));
    if (rp_check_differ(text, sizeof text, is, again))
        return rp_fail(err, RP_MISMATCH, "rates do not follow from the repetitions: ceilings/%s", text);
    if (phase && sum_repetitions(is) / 1e9 > json_number_value(phase) * CLOCKS_APART + 1e-3)
        return rp_fail(err, RP_MISMATCH, "the phase 'ceilings' took %.3f s, but its repetitions %.3f s", json_number_value(phase),
                       sum_repetitions(is) / 1e9);
    return check_share(s, is, result, err);
}

/* ---- telemetry ---- */

/* Steps and device samples share a clock: together they span at most the run, and device samples come at most at their rate. */
static int check_times(const struct rp_verify_state *s, const struct rp_telemetry *is, struct rp_err *err)
{
    const struct rp_records *rs = &s->records;
    double elapsed = json_number_value(json_object_get(s->run, "elapsed_s"));
    double first = (double)rp_sample_ns(is, 0) / 1e9, last = (double)rp_sample_ns(is, is->n - 1) / 1e9, begin = first, end = last;
    if ((double)((is->n - 1) * is->every) * PERIOD_S > (last - first) * WALL_DRIFT + 2 * PERIOD_S)
        return rp_fail(err, RP_MISMATCH, "%" PRId64 " device samples in %.3f s: they are taken every %.1f s", (is->n - 1) * is->every,
                       last - first, PERIOD_S);
    for (int64_t i = 0; i < rs->n; i++)
        if (rs->r[i].step >= 0) {
            begin = fmin(begin, (double)rs->r[i].start_ns / 1e9);
            end = fmax(end, (double)rs->r[i].end_ns / 1e9);
        }
    if (end - begin > elapsed * WALL_DRIFT + WALL_SLACK_S)
        return rp_fail(err, RP_MISMATCH, "steps and telemetry span %.3f s, but the whole run took %.3f s", end - begin, elapsed);
    return 0;
}

void rp_verify_window(const struct rp_verify_state *s, int64_t *from, int64_t *to)
{
    *from = *to = -1;
    for (int64_t i = 0; i < s->records.n; i++)
        if (s->records.r[i].timed) {
            *from = *from < 0 ? s->records.r[i].start_ns : *from;
            *to = s->records.r[i].end_ns;
        }
}

/* Samples that the timed windows should have. */
static double expected_samples(const struct rp_verify_state *s, int64_t every)
{
    int64_t begin, end;
    rp_verify_window(s, &begin, &end);
    return (double)(end - begin) / 1e9 / PERIOD_S / (double)every;
}

int rp_verify_few_samples(const struct rp_verify_state *s)
{
    const json_t *is = json_object_get(s->run, "telemetry");
    double timed = json_number_value(json_object_get(is, "timed"));
    return timed == 0 || timed < expected_samples(s, json_integer_value(json_object_get(is, "every"))) / 2 - 2;
}

/* Throttling, and too few device samples. */
static void describe_telemetry(const struct rp_verify_state *s, const json_t *is, struct rp_check_result *result)
{
    char text[300] = "";
    const char *name;
    json_t *share;
    int64_t timed = json_integer_value(json_object_get(is, "timed"));
    size_t n = 0;
    json_object_foreach(json_object_get(is, "throttle"), name, share)
    {
        if (!rp_throttle_is_harmless(name) && n < sizeof text)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%.40s in %.0f %%", n ? ", " : "", name, 100 * json_number_value(share));
    }
    double room = expected_samples(s, json_integer_value(json_object_get(is, "every")));
    int few = rp_verify_few_samples(s);
    if (few || *text)
        result->state = few && room >= SAMPLES_ENOUGH && rp_verify_complete(s) ? RP_CHECK_WARNING : RP_CHECK_NOTE;
    if (few)
        rp_check_text(result, "only %" PRId64 " device samples in the timed windows, %.0f expected%s%s", timed, room,
                     *text ? "; throttled: " : "", text);
    else
        rp_check_text(result, "%" PRId64 " device samples in the timed windows%s%s", timed, *text ? "; throttled: " : ", no throttling",
                      text);
}

static int check_samples(struct rp_verify_state *s, const struct rp_buf *bytes, struct rp_check_result *result, struct rp_err *err)
{
    char text[400];
    const json_t *is = json_object_get(s->run, "telemetry");
    if (rp_telemetry_parse(&s->telemetry, rp_buf_text(bytes), bytes->size, err) < 0)
        return -1;
    int failed = s->telemetry.n < 1 ? rp_fail(err, RP_MALFORMED, "the telemetry has no line") < 0 : check_times(s, &s->telemetry, err) < 0;
    RP_JSON *again = failed ? NULL : rp_telemetry_json(&s->telemetry, &s->records);
    if (!failed && rp_check_differ(text, sizeof text, is, again))
        failed = rp_fail(err, RP_MISMATCH, "run.json does not follow from the telemetry: telemetry/%s", text) < 0;
    if (!failed)
        describe_telemetry(s, is, result);
    return failed ? -1 : 0;
}

int rp_check_telemetry(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const char *name = RP_OF_RANK(0, ".telemetry.jsonl");
    const struct rp_member *m = rp_bundle_find(&s->bundle, name);
    const json_t *is = json_object_get(s->run, "telemetry"), *reason = json_object_get(is, "reason");
    if (is_cpu(s) && (is || m))
        return rp_fail(err, RP_MISMATCH, "there is telemetry of a device, but the CPU backend trained");
    if (m && !is)
        return rp_fail(err, RP_MISMATCH, "the bundle has %s, but run.json has no figures of it", name);
    if (is && !reason != (m != NULL))
        return rp_fail(err, RP_MISMATCH, "run.json has %s telemetry, but %s is %sin the bundle", reason ? "no" : "figures of", name,
                       m ? "" : "not ");
    if (m)
        return check_samples(s, &m->bytes, result, err);
    if (is_cpu(s))
        return rp_check_text(result, "none: the CPU backend has no telemetry");
    result->state = rp_verify_complete(s) ? RP_CHECK_WARNING : RP_CHECK_NOTE;
    return rp_check_text(result, "none%s%.300s", reason ? ": " : "", reason ? json_string_value(reason) : "");
}

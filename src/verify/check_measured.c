/* Measurements besides the steps: ceilings before and after, device telemetry. */
#include "base/json.h"
#include "base/text.h"
#include "run/ceilings.h"
#include "run/telemetry.h"
#include "verify/state.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define CLOCKS_APART 1.001 /* two oscillators, or two readings of one */
#define WALL_SLACK_S 1.001 /* the wall clock may be adjusted against the monotonic clock */
#define WALL_DRIFT 1.01
#define SAMPLES_ENOUGH 8 /* a window this long has some, even if the first are late */
#define EXCHANGE_LEAST 0.5 /* of the time at the measured rate */

/* Ceilings are the slowest rank's. */
static int is_cpu(const struct rp_verify_state *s)
{
    return rp_run_on_cpu(&s->run, s->run.ranks.slowest);
}

/* What a complete run on a GPU always has: worth a warning where it is missing, whatever the reason, as its absence helps a forger too. */
static int is_complete_gpu(const struct rp_verify_state *s)
{
    return !is_cpu(s) && rp_run_is_complete(s->run.json);
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
    const json_t *asked = rp_run_setting(s->run.json, "measure.ceilings");
    int complete = strcmp(json_string_value(json_object_get(s->run.json, "status")), "complete") == 0;
    if (json_is_true(asked) && complete)
        return rp_fail(err, RP_MISMATCH, "the settings require ceilings (measure.ceilings), but run.json has none");
    return rp_check_text(result, json_is_true(asked) ? "none: the run ended before they were measured" : "turned off (measure.ceilings)");
}

/* Exchanges of one level over all ranks took less than half of what their bytes take at the best rate that was measured. In several levels,
 * and within groups, a rank's neighbours may be nearer than all ranks are. */
static int exchanges_are_fast(const struct rp_verify_state *s, const json_t *is, struct rp_check_result *result)
{
    const json_t *x = rp_json_at(is, "achieved/exchange");
    const double least = rp_json_number_at(x, "least_s"), took = rp_json_number_at(x, "measured_s");
    const int one_level = rp_json_integer_at(rp_run_rank(&s->run, s->run.ranks.slowest), "exchange/levels") == 1;
    if (s->run.ranks.degrees.tensor * s->run.ranks.degrees.pipeline > 1 || !one_level ||
        !(took < least * EXCHANGE_LEAST))
        return 0;
    rp_check_warn(result, "exchanges took %.4g ms a step, and their bytes at least %.4g ms at the highest rate that was measured", took * 1e3,
                  least * 1e3);
    return 1;
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
    if (exchanges_are_fast(s, is, result))
        return 0;
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
    const json_t *is = json_object_get(s->run.json, "ceilings"),
                 *phase = json_object_get(json_object_get(s->run.json, "phases_s"), "ceilings");
    if (!is)
        return check_no_ceilings(s, result, err);
    if (json_is_false(rp_run_setting(s->run.json, "measure.ceilings")))
        return rp_fail(err, RP_MISMATCH, "the settings turn ceilings off (measure.ceilings), but run.json has them");
    RP_JSON *again =
        rp_ceilings_json(is, json_object_get(s->run.json, "results"), json_object_get(s->run.json, "world"));
    if (rp_check_differ(text, sizeof text, is, again))
        return rp_fail(err, RP_MISMATCH, "rates do not follow from the repetitions: ceilings/%s", text);
    if (phase && sum_repetitions(is) / 1e9 > json_number_value(phase) * CLOCKS_APART + 1e-3)
        return rp_fail(err, RP_MISMATCH, "the phase 'ceilings' took %.3f s, but its repetitions %.3f s", json_number_value(phase),
                       sum_repetitions(is) / 1e9);
    return check_share(s, is, result, err);
}

/* ---- telemetry ---- */

/* The share of a rank, of the only one too. */
static const struct rp_rank_share *share_of(const struct rp_verify_state *s, int rank)
{
    return &s->run.ranks.share[rank];
}

/* Steps and device samples of a rank share a clock: together they span at most the run, and device samples come at most at their rate. */
static int check_times(const struct rp_verify_state *s, int rank, const struct rp_telemetry *is, struct rp_err *err)
{
    const struct rp_rank_share *share = share_of(s, rank);
    const double elapsed = json_number_value(json_object_get(s->run.json, "elapsed_s"));
    double first = (double)rp_sample_ns(is, 0) / 1e9, last = (double)rp_sample_ns(is, is->n - 1) / 1e9, begin = first, end = last;
    if ((double)((is->n - 1) * is->every) * RP_TELEMETRY_PERIOD_S > (last - first) * WALL_DRIFT + 2 * RP_TELEMETRY_PERIOD_S)
        return rp_fail(err, RP_MISMATCH, "%" PRId64 " device samples in %.3f s: they are taken every %.1f s", (is->n - 1) * is->every,
                       last - first, RP_TELEMETRY_PERIOD_S);
    if (share->samples) {
        begin = fmin(begin, (double)share->begun_ns / 1e9);
        end = fmax(end, (double)share->ended_ns / 1e9);
    }
    if (end - begin > elapsed * WALL_DRIFT + WALL_SLACK_S)
        return rp_fail(err, RP_MISMATCH, "steps and telemetry span %.3f s, but the whole run took %.3f s", end - begin, elapsed);
    return 0;
}

/* What the ranks' device samples show. */
struct telemetry_seen {
    int with;              /* ranks that have some */
    int few;               /* of these, with too few; */
    double room;           /* of the one with fewest for its window: expected, */
    int64_t timed;         /* and seen */
    int worst, without;    /* that rank; the first one on a GPU without telemetry, or -1 */
    char throttled[240];   /* reasons, with the rank of several; "": none */
};

static void look_at_throttling(struct telemetry_seen *seen, const struct rp_verify_state *s, int rank)
{
    const char *name;
    json_t *share;
    char who[24] = "";
    if (s->run.ranks.ranks > 1)
        RP_FORMAT(who, "rank %d: ", rank);
    json_object_foreach((json_t *)json_object_get(rp_run_rank_telemetry(&s->run, rank), "throttle"), name, share) {
        const size_t n = strlen(seen->throttled);
        if (!rp_throttle_is_harmless(name) && n + 100 < sizeof seen->throttled)
            snprintf(seen->throttled + n, sizeof seen->throttled - n, "%s%s%.40s in %.0f %%", n ? ", " : "", who, name,
                     100 * json_number_value(share));
    }
}

/* Throttling, and too few device samples. */
static void describe_telemetry(const struct rp_verify_state *s, const struct telemetry_seen *seen, struct rp_check_result *result)
{
    const char *throttled = seen->throttled;
    const json_int_t timed = rp_json_integer_at(s->run.json, "telemetry/timed");
    char of[48] = "", who[32] = "";
    if (s->run.ranks.ranks > 1) {
        RP_FORMAT(of, " of %d ranks", seen->with);
        RP_FORMAT(who, " of rank %d", seen->worst);
    }
    if (seen->few || *throttled)
        result->state = seen->few && seen->room >= SAMPLES_ENOUGH && rp_run_is_complete(s->run.json) ? RP_CHECK_WARNING
                                                                                                     : RP_CHECK_NOTE;
    if (seen->without >= 0)
        rp_check_warn(result, "rank %d trained on a GPU and has no telemetry: %.200s", seen->without,
                      rp_json_text_at(rp_run_rank_telemetry(&s->run, seen->without), "reason"));
    else if (seen->few)
        rp_check_text(result, "only %" PRId64 " device samples%s in the timed windows, %.0f expected%s%s", seen->timed, who, seen->room,
                      *throttled ? "; throttled: " : "", throttled);
    else
        rp_check_text(result, "%" JSON_INTEGER_FORMAT " device samples%s in the timed windows%s%s", timed, of,
                      *throttled ? "; throttled: " : ", no throttling", throttled);
}

/* The samples of a rank, which are kept of the slowest one: the times of the run are its. */
static int check_samples(struct rp_verify_state *s, int rank, const struct rp_buf *bytes, struct rp_err *err)
{
    char text[400];
    struct rp_telemetry parsed;
    if (rp_telemetry_parse(&parsed, rank, s->run.ranks.ranks, rp_buf_text(bytes), bytes->size, err) < 0)
        return -1;
    int failed = parsed.n < 1 ? rp_fail(err, RP_MALFORMED, "the telemetry has no line") < 0 : check_times(s, rank, &parsed, err) < 0;
    RP_JSON *again = failed                   ? NULL
                     : s->run.ranks.ranks > 1 ? rp_telemetry_of_rank(&parsed, share_of(s, rank))
                                              : rp_telemetry_json(&parsed, &s->run.records);
    if (!failed && rp_check_differ(text, sizeof text, rp_run_rank_telemetry(&s->run, rank), again))
        failed = rp_fail(err, RP_MISMATCH, "run.json does not follow from the telemetry: telemetry/%s", text) < 0;
    if (!failed && rank == s->run.ranks.slowest)
        s->run.telemetry = parsed;
    else
        rp_telemetry_fini(&parsed);
    return failed ? -1 : 0;
}

static int check_rank_telemetry(struct rp_verify_state *s, int rank, struct telemetry_seen *seen, struct rp_err *err)
{
    const char *name = RP_OF_RANK(rank, ".telemetry.jsonl");
    const struct rp_member *m = rp_bundle_find(&s->bundle, name);
    const json_t *is = rp_run_rank_telemetry(&s->run, rank), *reason = json_object_get(is, "reason");
    if (rp_run_on_cpu(&s->run, rank) && (is || m))
        return rp_fail(err, RP_MISMATCH, "there is telemetry of a device, but the CPU backend trained");
    if (m && !is)
        return rp_fail(err, RP_MISMATCH, "the bundle has %s, but run.json has no figures of it", name);
    if (is && !reason != (m != NULL))
        return rp_fail(err, RP_MISMATCH, "run.json has %s telemetry, but %s is %sin the bundle", reason ? "no" : "figures of", name,
                       m ? "" : "not ");
    if (!m && !rp_run_on_cpu(&s->run, rank) && seen->without < 0)
        seen->without = rank;
    if (!m)
        return 0;
    if (check_samples(s, rank, &m->bytes, err) < 0)
        return -1;
    const double room = rp_run_expected_samples(&s->run, rank);
    const int64_t timed = rp_json_integer_at(is, "timed");
    if (!seen->with || (double)timed * seen->room < (double)seen->timed * room) {
        seen->room = room;
        seen->timed = timed;
        seen->worst = rank;
    }
    seen->with++;
    seen->few |= rp_run_lacks_samples(&s->run, rank);
    look_at_throttling(seen, s, rank);
    return 0;
}

int rp_check_telemetry(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    struct telemetry_seen seen = {.without = -1};
    char text[400];
    const json_t *is = json_object_get(s->run.json, "telemetry");
    const char *reason = rp_json_text_at(is, "reason");
    for (int i = 0; i < s->run.ranks.ranks; i++)
        if (check_rank_telemetry(s, i, &seen, err) < 0)
            return s->run.ranks.ranks > 1 ? rp_wrap(err, "rank %d", i) : -1;
    if (s->run.ranks.ranks > 1) {
        RP_JSON *again = rp_telemetry_of_all(rp_json_at(s->run.json, "world/rank"), &s->run.records);
        if ((is || again) && rp_check_differ(text, sizeof text, is, again))
            return rp_fail(err, RP_MISMATCH, "run.json does not follow from the telemetry of its ranks: telemetry/%s", text);
    }
    if (seen.with) {
        describe_telemetry(s, &seen, result);
        return 0;
    }
    if (strcmp(rp_run_kind(s->run.json), "cpu") == 0)
        return rp_check_text(result, "none: the CPU backend has no telemetry");
    result->state = rp_run_is_complete(s->run.json) ? RP_CHECK_WARNING : RP_CHECK_NOTE;
    return rp_check_text(result, "none%s%.300s", *reason ? ": " : "", reason);
}

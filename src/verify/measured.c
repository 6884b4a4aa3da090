/* What was measured beside the steps: ceilings before and after them. */
#include "base/json.h"
#include "report/ceilings.h"
#include "verify/state.h"

#include <string.h>

#define CLOCKS_APART 1.001 /* two quartzes, or two readings of one */

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
    if (!asked)
        result->state = RP_CHECK_NOTE;
    rp_check_say(result, asked ? json_is_true(asked) ? "none: the run ended before they were measured" : "not asked for (measure.ceilings)"
                               : "none: the bundle is older");
    return 0;
}

static int check_share(const struct rp_verify_state *s, const json_t *is, struct rp_check_result *result, struct rp_err *err)
{
    const json_t *both[] = {json_object_get(is, "before"), json_object_get(is, "after")};
    const json_t *share = json_object_get(json_object_get(is, "achieved"), "gemm_share");
    double slack = is_cpu(s) ? RP_CEILING_SLACK_CPU : RP_CEILING_SLACK_DEVICE, value = json_number_value(share);
    if (json_is_null(both[0]) || json_is_null(both[1])) { /* a clock may still rise after the first */
        result->state = RP_CHECK_NOTE;
        rp_check_say(result, "not measured %s the run: what it achieved is held against nothing", json_is_null(both[0]) ? "before" : "after");
        return 0;
    }
    if (value > slack)
        return rp_fail(err, RP_MISMATCH, "the run achieved %.2f times what its own matrix product did at best; at most %.2f is believed", value,
                       slack);
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
        return rp_fail(err, RP_MISMATCH, "the phase 'ceilings' took %.3f s, and its repetitions %.3f s", json_number_value(phase), spent(is) / 1e9);
    return check_share(s, is, result, err);
}

/* The changes between the two captures, listed again. */
#include "base/json.h"
#include "capture/compare.h"
#include "verify/state.h"

#include <stdio.h>

/* Without the impact grades, which other versions may assign differently. */
static json_t *without_grades(const json_t *list)
{
    static const char *const keys[] = {"field", "before", "after"};
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *fact = json_object();
        for (int k = 0; k < 3; k++)
            json_object_set(fact, keys[k], json_object_get(json_array_get(list, i), keys[k]));
        json_array_append_new(out, fact);
    }
    return out;
}

static int count_regraded(const json_t *a, const json_t *b)
{
    int n = 0;
    for (size_t i = 0; i < json_array_size(a); i++) {
        const json_t *one = json_array_get(a, i), *other = json_array_get(b, i);
        n += !json_equal(json_object_get(one, "impact"), json_object_get(other, "impact")) ||
             !json_equal(json_object_get(one, "moment"), json_object_get(other, "moment"));
    }
    return n;
}

static int count_important(const json_t *list)
{
    int n = 0;
    for (size_t i = 0; i < json_array_size(list); i++)
        n += rp_capture_important(json_array_get(list, i));
    return n;
}

int rp_check_changes(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    char text[400];
    const json_t *is = json_object_get(s->run, "environment_changes");
    RP_JSON *again = rp_capture_changes(s->before, s->after, err);
    if (!again)
        return -1;
    RP_JSON *recorded = without_grades(is), *expected = without_grades(again);
    if (rp_check_differ(text, sizeof text, recorded, expected))
        return rp_fail(err, RP_MISMATCH, "environment_changes in run.json does not follow from the captures: environment_changes/%s", text);
    int grades = count_regraded(is, again), matter = count_important(again);
    if (grades || matter)
        result->state = RP_CHECK_NOTE;
    snprintf(text, sizeof text, grades ? "; this version grades %d of them differently" : "", grades);
    rp_check_text(result, "%zu values, %d of high or medium impact%s", json_array_size(again), matter, text);
    return 0;
}

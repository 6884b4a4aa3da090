/* Labelled values of facts.json and run.json of two bundles, side by side. */
#include "compare/compare.h"

#include "base/json.h"
#include "run/run.h"

#include <string.h>

static const json_t *known(const json_t *value)
{
    return json_is_null(value) ? NULL : value;
}

/* Digests and times differ between any two runs; what begins with the name of a listed confounder ("data": "data
 * digest") is shown there. */
static int is_covered(const struct rp_object_field *f, const json_t *confounders)
{
    if (f->type == RP_IS_SHA256 || f->type == RP_IS_TIME || strcmp(f->unit, "s") == 0)
        return 1;
    for (size_t i = 0; i < json_array_size(confounders); i++) {
        const char *name = rp_json_text_at(json_array_get(confounders, i), "name");
        const size_t n = strlen(name);
        if (n && strncmp(f->label, name, n) == 0 && (f->label[n] == 0 || f->label[n] == ' '))
            return 1;
    }
    return 0;
}

/* confounders: only values that differ, and that these do not cover; NULL: all. */
static void add_labelled(json_t *list, const struct rp_object_type *type, const json_t *a, const json_t *b,
                         const json_t *confounders)
{
    for (int i = 0; i < type->n; i++) {
        const struct rp_object_field *f = &type->field[i];
        const json_t *x = known(json_object_get(a, f->name)), *y = known(json_object_get(b, f->name));
        if (f->type == RP_IS_PART || f->type == RP_IS_PART_OR_NONE)
            add_labelled(list, f->of, x, y, confounders);
        if (!*f->label || (!x && !y) || (confounders && (json_equal(x, y) || is_covered(f, confounders))))
            continue;
        json_array_append_new(list, json_pack("{s:s, s:s*, s:O?, s:O?}", "name", f->label, "unit",
                                              *f->unit ? f->unit : NULL, "a", x, "b", y));
    }
}

void rp_compare_labelled(json_t *pair, const struct rp_result *a, const struct rp_result *b)
{
    if (!a->run || !b->run)
        return;
    json_t *facts = json_array(), *figures = json_array();
    add_labelled(facts, &rp_type_facts, a->run->facts_json, b->run->facts_json, json_object_get(pair, "confounders"));
    add_labelled(figures, &rp_type_figures, a->run->figures_json, b->run->figures_json, NULL);
    json_object_set_new(pair, "facts", facts);
    json_object_set_new(pair, "figures", figures);
}

/* Labelled values of facts.json and run.json of two bundles, side by side. */
#include "compare/compare.h"

#include "base/json.h"
#include "run/run.h"

#include <string.h>

/* NULL: unknown. */
static json_t *value_of(const void *object, const struct rp_object_field *f)
{
    json_t *v = object ? rp_object_value(object, f) : NULL;
    if (!json_is_null(v))
        return v;
    json_decref(v);
    return NULL;
}

static const void *part_of(const void *object, const struct rp_object_field *f)
{
    return object ? rp_object_part(object, f) : NULL;
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
static void add_labelled(json_t *list, const struct rp_object_type *type, const void *a, const void *b, const json_t *confounders)
{
    for (int i = 0; i < type->n; i++) {
        const struct rp_object_field *f = &type->field[i];
        if (f->type == RP_IS_PART || f->type == RP_IS_PART_OR_NONE)
            add_labelled(list, f->of, part_of(a, f), part_of(b, f), confounders);
        if (!*f->label)
            continue;
        RP_JSON *x = value_of(a, f), *y = value_of(b, f);
        if ((x || y) && !(confounders && (json_equal(x, y) || is_covered(f, confounders))))
            json_array_append_new(list, json_pack("{s:s, s:s*, s:O?, s:O?}", "name", f->label, "unit",
                                                  *f->unit ? f->unit : NULL, "a", x, "b", y));
    }
}

void rp_compare_labelled(json_t *pair, const struct rp_result *a, const struct rp_result *b)
{
    if (!a->run || !b->run)
        return;
    json_t *facts = json_array(), *figures = json_array();
    add_labelled(facts, &rp_type_facts, &a->run->facts, &b->run->facts, json_object_get(pair, "confounders"));
    add_labelled(figures, &rp_type_figures, &a->run->figures, &b->run->figures, NULL);
    json_object_set_new(pair, "facts", facts);
    json_object_set_new(pair, "figures", figures);
}

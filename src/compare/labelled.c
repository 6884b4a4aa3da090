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
static int is_covered(const struct rp_object_field *f, const struct rp_pair *pair)
{
    if (f->type == RP_IS_SHA256 || f->type == RP_IS_TIME || strcmp(f->unit, "s") == 0)
        return 1;
    for (int64_t i = 0; i < pair->confounders_n; i++) {
        const char *name = pair->confounders[i].name;
        const size_t n = strlen(name);
        if (n && strncmp(f->label, name, n) == 0 && (f->label[n] == 0 || f->label[n] == ' '))
            return 1;
    }
    return 0;
}

/* Those of run.json with figures; else those of facts.json that differ, and that no confounder covers. */
static void add_labelled(struct rp_pair *pair, int figures, const struct rp_object_type *type, const void *a,
                         const void *b)
{
    for (int i = 0; i < type->n; i++) {
        const struct rp_object_field *f = &type->field[i];
        if (f->type == RP_IS_PART || f->type == RP_IS_PART_OR_NONE)
            add_labelled(pair, figures, f->of, part_of(a, f), part_of(b, f));
        if (!*f->label)
            continue;
        RP_JSON *x = value_of(a, f), *y = value_of(b, f);
        if ((!x && !y) || (!figures && (json_equal(x, y) || is_covered(f, pair))))
            continue;
        struct rp_labelled *one = figures ? rp_object_add(&pair->figures, &pair->figures_n, &rp_type_labelled)
                                          : rp_object_add(&pair->facts, &pair->facts_n, &rp_type_labelled);
        *one = (struct rp_labelled){rp_strdup(f->label), rp_text_copy(*f->unit ? f->unit : NULL), json_incref(x),
                                    json_incref(y)};
    }
}

void rp_compare_labelled(struct rp_pair *pair, const struct rp_result *a, const struct rp_result *b)
{
    if (!a->run || !b->run)
        return;
    add_labelled(pair, 0, &rp_type_facts, &a->run->facts, &b->run->facts);
    add_labelled(pair, 1, &rp_type_figures, &a->run->figures, &b->run->figures);
}

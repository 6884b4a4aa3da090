/* The resolved form of a recipe: every key of its model with its value and where it came from, as JSON and back. Keys
 * that are LATER in keys.def are there only if something set them. */
#include "base/json.h"
#include "base/text.h"
#include "recipe/keys.h"

#include <string.h>

json_t *rp_recipe_to_json(const struct rp_recipe *r)
{
    json_t *j = json_object();
    for (int k = 0; k < RP_KEY_COUNT; k++)
        if (rp_key_applies(r, k) && !(rp_key_is_later(r, k) && r->origin[k] == RP_FROM_DEFAULT))
            json_object_set_new(
                j, rp_key_at(k)->name,
                json_pack("{s:o, s:s}", "value", rp_value_to_json(r, k), "origin", rp_origin_name(r->origin[k])));
    return j;
}

static int origin_of(const char *name)
{
    for (int o = RP_FROM_DEFAULT; o <= RP_FROM_CHALLENGE; o++)
        if (strcmp(rp_origin_name((enum rp_origin)o), name) == 0)
            return o;
    return -1;
}

static int set_from_json(struct rp_recipe *r, const char *name, const json_t *entry, struct rp_err *err)
{
    const char *origin;
    struct rp_value v;
    int k = rp_key_find(name);
    if (k < 0)
        return rp_key_unknown(name, err);
    if (rp_key_refuse(r, k, err) < 0)
        return -1;
    const json_t *value = rp_recorded(entry).value;
    if (!value || json_object_size(entry) != 2)
        return rp_fail(err, RP_MALFORMED, "%s: expected {\"value\", \"origin\"}", name);
    if (rp_json_str(entry, "origin", &origin, name, err) < 0)
        return -1;
    int o = origin_of(origin);
    if (o < 0)
        return rp_fail(err, RP_MALFORMED, "%s: unknown origin", name);
    int failed = rp_value_from_json(&v, k, value, err);
    if (!failed)
        rp_value_store(r, k, &v, (enum rp_origin)o);
    rp_value_fini(&v);
    return failed;
}

void rp_recipe_complete(json_t *recipe)
{
    struct rp_recipe r;
    struct rp_err err;
    rp_recipe_defaults(&r);
    (void)(json_object_get(recipe, "workload") &&
           set_from_json(&r, "workload", json_object_get(recipe, "workload"), &err));
    for (int k = 0; k < RP_KEY_COUNT; k++)
        if (rp_key_is_later(&r, k) && !json_object_get(recipe, rp_key_at(k)->name))
            json_object_set_new(
                recipe, rp_key_at(k)->name,
                json_pack("{s:o, s:s}", "value", rp_value_to_json(&r, k), "origin", rp_origin_name(RP_FROM_DEFAULT)));
    rp_recipe_fini(&r);
}

int rp_recipe_from_json(struct rp_recipe *r, const json_t *j, struct rp_err *err)
{
    static const char model[] = "workload"; /* first: it decides which keys exist */
    const char *name;
    json_t *entry;
    int key;
    rp_recipe_defaults(r);
    int failed = json_is_object(j) ? 0 : rp_fail(err, RP_MALFORMED, "expected an object of keys");
    if (!failed && json_object_get(j, model))
        failed = set_from_json(r, model, json_object_get(j, model), err);
    rp_recipe_model_defaults(r);
    json_object_foreach ((json_t *)j, name, entry) { /* jansson iterates over non-const objects only */
        if (failed)
            break;
        failed = set_from_json(r, name, entry, err);
    }
    for (int k = 0; k < RP_KEY_COUNT && !failed; k++)
        if (rp_key_applies(r, k) && !rp_key_is_later(r, k) && !json_object_get(j, rp_key_at(k)->name))
            failed = rp_fail(err, RP_MALFORMED, "%s is missing", rp_key_at(k)->name);
    for (int i = 0; !failed; i++) {
        const int state = rp_recipe_check(r, i, &key, err);
        if (state > 0)
            break;
        failed = state;
    }
    if (!failed)
        return 0;
    rp_recipe_fini(r);
    err->code = RP_MALFORMED; /* the document was made from a valid recipe */
    return rp_wrap(err, "resolved recipe");
}

struct rp_recorded rp_recorded(const json_t *entry)
{
    return (struct rp_recorded){json_object_get(entry, "value"), rp_json_text_at(entry, "origin")};
}

void rp_recipe_hide_paths(json_t *recipe)
{
    /* of this machine: no reader has the file, and digests and roots identify what was in it */
    static const struct {
        const char *key, *shown;
    } paths[] = {{"run.save", "SAVED"}, {"run.init", "GIVEN"}, {"data.path", "OWN"}, {"model.config", "GIVEN"}};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        json_t *entry = json_object_get(recipe, paths[i].key);
        const char *path = json_string_value(rp_recorded(entry).value);
        const int is_folder = i == 0 && path && *path && path[strlen(path) - 1] == '/'; /* what --save means by it */
        RP_FREE char *shown = rp_asprintf("%s%s", paths[i].shown, is_folder ? "/" : "");
        if (path && *path)
            json_object_set_new(entry, "value", json_string(shown));
    }
}

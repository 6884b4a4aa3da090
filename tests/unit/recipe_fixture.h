/* Shared by the tests of recipes: reading a text, the origin of a value, and the way through JSON and back. */
#pragma once

#include "base/json.h"
#include "recipe/recipe.h"
#include "tests/unit/tap.h"

#include <string.h>

static __attribute__((unused)) int parse(struct rp_recipe *r, const char *text, const char *backend, struct rp_err *err)
{
    return rp_recipe_parse(r, text, strlen(text), "t.yaml", backend, NULL, 0, err);
}

static const char *origin(const json_t *j, const char *key)
{
    return json_string_value(json_object_get(json_object_get(j, key), "origin"));
}

static __attribute__((unused)) void check_same(const struct rp_recipe *a, const struct rp_recipe *b, const char *what)
{
#define SAME_I(f) (a->f == b->f)
#define SAME_F(f) (memcmp(&a->f, &b->f, sizeof a->f) == 0)
#define SAME_B(f) (a->f == b->f)
#define SAME_C(f) (a->f == b->f)
#define SAME_S(f) (!a->f == !b->f && (!a->f || strcmp(a->f, b->f) == 0))
#define SAME_L(f) (strcmp(a->f ? a->f : "", b->f ? b->f : "") == 0)
#define KEY(name, field, type, models, def, lo, hi, choices, flag, help)                                               \
    CHECK(SAME_##type(field), "%s: %s", what, name);
#include "recipe/keys.def"
#undef KEY
    CHECK(memcmp(a->origin, b->origin, sizeof a->origin) == 0, "%s: origins", what);
}

static __attribute__((unused)) void round_trip(const struct rp_recipe *r, const char *what)
{
    RP_BUF bytes = {0}, again = {0};
    struct rp_recipe back;
    struct rp_err err;
    json_t *j = rp_recipe_to_json(r);
    rp_json_write(&bytes, j);
    json_decref(j);
    j = rp_json_parse(bytes.data, bytes.size, "resolved", &err);
    CHECK(j && rp_recipe_from_json(&back, j, &err) == 0, "%s: %s", what, err.msg);
    json_decref(j);
    check_same(r, &back, what);
    j = rp_recipe_to_json(&back);
    rp_json_write(&again, j);
    json_decref(j);
    CHECK(bytes.size == again.size && memcmp(bytes.data, again.data, bytes.size) == 0, "%s: bytes differ", what);
    rp_recipe_fini(&back);
}

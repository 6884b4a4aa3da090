/* Shared by the tests of recipes: a text is read, and where the value of a key comes from. */
#pragma once

#include "base/json.h"
#include "recipe/recipe.h"

#include <string.h>

static __attribute__((unused)) int parse(struct rp_recipe *r, const char *text, const char *backend, struct rp_err *err)
{
    return rp_recipe_parse(r, text, strlen(text), "t.yaml", backend, NULL, 0, err);
}

static const char *origin(const json_t *j, const char *key)
{
    return json_string_value(json_object_get(json_object_get(j, key), "origin"));
}

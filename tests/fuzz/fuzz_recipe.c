/* Any bytes as a recipe: refused with one line, or taken, and then the resolved form says the same again. */
#include "base/json.h"
#include "recipe/recipe.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rp_recipe r, back;
    struct rp_err err = {0};
    if (rp_recipe_parse(&r, (const char *)data, size, "fuzz.yaml", size % 2 ? "cpu" : NULL, NULL, 0, &err) < 0) {
        must_be_refusal(&err);
        return 0;
    }
    RP_BUF once = {0}, twice = {0};
    json_t *j = rp_recipe_to_json(&r);
    rp_json_write(&once, j);
    if (rp_recipe_from_json(&back, j, &err) < 0)
        abort();
    json_decref(j);
    j = rp_recipe_to_json(&back);
    rp_json_write(&twice, j);
    json_decref(j);
    if (once.size != twice.size || memcmp(once.data, twice.data, once.size) != 0)
        abort();
    rp_recipe_fini(&r);
    rp_recipe_fini(&back);
    return 0;
}

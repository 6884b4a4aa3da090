#include "train/public_config.h"

#include "base/json.h"
#include "base/text.h"
#include "recipe/config.h"
#include "recipe/keys.h"

#include <stdlib.h>
#include <string.h>

#define CONFIG_MAX (256u << 10)

static const char *excerpt(char out[72], const json_t *j)
{
    RP_BUF text = {0};
    rp_buf_puts(&text, json_is_string(j) ? "\"" : "");
    rp_json_write_plain(&text, j);
    rp_buf_puts(&text, json_is_string(j) ? "\"" : "");
    return rp_excerpt(out, rp_buf_text(&text));
}

static int64_t recipe_integer(const struct rp_recipe *r, const char *key)
{
    RP_JSON *v = rp_value_to_json(r, rp_key_find(key));
    return json_integer_value(v);
}

/* A number of config.json may be written as 0 or 0.0. */
static int same_value(const json_t *a, const json_t *b)
{
    return json_is_number(a) && json_is_number(b) ? json_number_value(a) == json_number_value(b) : json_equal(a, b);
}

/* v: of config.json; is: of the recipe, NULL where the kind has none. */
static int setting_agrees(const struct rp_public_setting *s, const json_t *v, const json_t *is,
                          const struct rp_recipe *r, const json_t *only)
{
    const char *word = json_string_value(is);
    switch (s->kind) {
    case RP_SETTING_ACTIVATION:
        return word && rp_public_activation(json_string_value(v)) >= 0 &&
               rp_public_activation(json_string_value(v)) == rp_public_activation(word);
    case RP_SETTING_INNER:
        return json_is_null(v) ? json_integer_value(is) == 4 * recipe_integer(r, "model.hidden_size")
                               : same_value(v, is);
    case RP_SETTING_ROWS:
        return json_is_integer(v) && json_integer_value(v) >= recipe_integer(r, "model.vocab_size") &&
               json_integer_value(v) <= json_integer_value(is);
    case RP_SETTING_SAVED:
        return 1;
    case RP_SETTING_ONLY:
        return same_value(v, only);
    case RP_SETTING_VALUE:
        break;
    }
    return same_value(v, is);
}

static int check_setting(const char *path, const struct rp_public_setting *s, const json_t *config,
                         const struct rp_recipe *r, struct rp_err *err)
{
    char have[72], want[72];
    RP_JSON *absent = json_loads(s->value, JSON_DECODE_ANY, NULL),
            *is = s->key ? rp_value_to_json(r, rp_key_find(s->key)) : NULL;
    const json_t *given = json_object_get(config, s->name), *v = given ? given : absent;
    if (setting_agrees(s, v, is, r, absent))
        return 0;
    if (!s->key)
        return rp_fail(err, RP_USAGE, "'%s': %s is %s; this program computes only %s", path, s->name, excerpt(have, v),
                       excerpt(want, absent));
    return rp_fail(err, RP_USAGE,
                   "'%s': %s is %s%s, the recipe's %s is %s; take all of them with --set model.config=%s, or name "
                   "model.safetensors itself: then its shapes alone are compared",
                   path, s->name, excerpt(have, v), given ? "" : " (absent, the default)", s->key, excerpt(want, is),
                   path);
}

static int is_setting(const struct rp_recipe *r, const char *name)
{
    for (const struct rp_public_setting *s = rp_public_settings(r); s->name; s++)
        if (strcmp(s->name, name) == 0)
            return 1;
    return 0;
}

int rp_public_config_check(const char *path, const struct rp_recipe *r, json_t *ignored, json_t *unknown,
                           struct rp_err *err)
{
    const struct rp_public *p = rp_model_of(r)->public;
    RP_BUF text = {0};
    char shown[72];
    const char *name, *type;
    json_t *v;
    if (!p || !p->class)
        return rp_fail(err, RP_USAGE,
                       "'%s': files of %s have no config.json, so it belongs to another architecture: name the "
                       "safetensors file itself",
                       path, rp_model_of(r)->name);
    if (rp_read_file(&text, path, CONFIG_MAX, err) < 0)
        return -1;
    RP_JSON *config = rp_json_parse(rp_buf_text(&text), text.size, path, err);
    if (!config)
        return -1;
    type = json_string_value(json_object_get(config, "model_type"));
    if (!json_is_object(config))
        return rp_fail(err, RP_MALFORMED, "'%s': expected a JSON object", path);
    if (json_object_get(config, "model_type") && (!type || strcmp(type, rp_public_type(r)) != 0))
        return rp_fail(err, RP_USAGE, "'%s': model_type is %s, the recipe trains \"%s\"", path,
                       excerpt(shown, json_object_get(config, "model_type")), rp_public_type(r));
    for (const struct rp_public_setting *s = rp_public_settings(r); s->name; s++)
        if (check_setting(path, s, config, r, err) < 0)
            return -1;
    json_object_foreach (config, name, v)
        if (!is_setting(r, name) && strcmp(name, "model_type") != 0)
            json_array_append_new(rp_config_is_harmless(name) ? ignored : unknown,
                                  json_string(rp_excerpt(shown, name)));
    return 0;
}

static json_t *saved_value(const struct rp_public_setting *s, const struct rp_recipe *r)
{
    RP_JSON *is = rp_value_to_json(r, rp_key_find(s->key));
    if (s->kind != RP_SETTING_ACTIVATION)
        return json_incref(is);
    return json_string(rp_public_activation(json_string_value(is)) == RP_ACTIVATION_gelu ? "gelu" : "gelu_new");
}

void rp_public_config_write(struct rp_buf *out, const struct rp_recipe *r)
{
    static const char *const types[] = {
        [RP_PRECISION_fp32] = "float32", [RP_PRECISION_fp16] = "float16", [RP_PRECISION_bf16] = "bfloat16"};
    const struct rp_public *p = rp_model_of(r)->public;
    RP_JSON *config = json_pack("{s:[s], s:s, s:s}", "architectures", p->class, "model_type", rp_public_type(r),
                                "torch_dtype", types[r->run_save_precision]);
    for (const struct rp_public_setting *s = rp_public_settings(r); s->name; s++)
        if (s->kind != RP_SETTING_ONLY)
            json_object_set_new(config, s->name, saved_value(s, r));
    if (p->end_token) {
        json_t *end = json_integer(recipe_integer(r, p->end_token)); /* outside the vocabulary there is none */
        int known = json_integer_value(end) < recipe_integer(r, "model.vocab_size");
        json_object_set_new(config, "bos_token_id", known ? json_incref(end) : json_null());
        json_object_set_new(config, "eos_token_id", known ? json_incref(end) : json_null());
        json_decref(end);
    }
    rp_json_write(out, config);
}

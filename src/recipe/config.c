/* bert_config.json in its published form: a flat JSON object whose names are the model.* rows of keys.def. */
#include "base/json.h"
#include "base/text.h"
#include "recipe/keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Names in published files that do not affect the computation. only: the one value for which that is true, NULL: any. */
static const struct {
    const char *name, *only;
} harmless[] = {
    {"architectures", NULL},
    {"classifier_dropout", NULL},
    {"directionality", NULL},
    {"finetuning_task", NULL},
    {"gradient_checkpointing", NULL},
    {"_name_or_path", NULL},
    {"model_type", "bert"},
    {"output_past", NULL},
    {"pad_token_id", NULL},
    {"pooler_fc_size", NULL},
    {"pooler_num_attention_heads", NULL},
    {"pooler_num_fc_layers", NULL},
    {"pooler_size_per_head", NULL},
    {"pooler_type", NULL},
    {"position_embedding_type", "absolute"},
    {"torch_dtype", NULL},
    {"transformers_version", NULL},
    {"use_cache", NULL},
};

/* The value of a model.* row; skip: marks rows that a source of higher precedence has set. */
static int store_config_value(struct rp_recipe *r, int key, const json_t *value, const char *skip, struct rp_err *err)
{
    struct rp_value v;
    if (rp_key_refuse(r, key, err) < 0 || rp_value_from_json(&v, key, value, err) < 0)
        return -1;
    if (!skip[key])
        rp_value_store(r, key, &v, RP_FROM_CONFIG);
    rp_value_fini(&v);
    return 0;
}

static int read_config_value(struct rp_recipe *r, const char *name, const json_t *value, const char *skip, struct rp_err *err)
{
    char key_name[128], shown[72];
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++) {
        const char *s = json_string_value(value), *only = harmless[i].only;
        if (strcmp(harmless[i].name, name) != 0)
            continue;
        if (only && (!s || strcmp(s, only) != 0))
            return rp_fail(err, RP_USAGE, "%s: only \"%s\" can be trained here", name, only);
        char *list = rp_asprintf("%s%s%s", r->ignored ? r->ignored : "", r->ignored ? ", " : "", name);
        free(r->ignored);
        r->ignored = list;
        return 0;
    }
    int k = rp_key_find(RP_FORMAT(key_name, "model.%s", rp_excerpt(shown, name)));
    if (k < 0 || k == RP_KEY_model_config)
        return rp_key_unknown(key_name, err);
    return store_config_value(r, k, value, skip, err);
}

int rp_recipe_config_recorded(struct rp_recipe *r, const json_t *recorded, const char *skip, struct rp_err *err)
{
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)recorded, name, value) {
        int k = rp_key_find(name);
        if (k < 0 || k == RP_KEY_model_config || strncmp(name, "model.", 6) != 0)
            return rp_fail(err, RP_MALFORMED, "model.config: it cannot set '%.64s'", k < 0 ? "?" : name);
        if (store_config_value(r, k, value, skip, err) < 0)
            return rp_wrap(err, "model.config");
    }
    return 0;
}

int rp_recipe_config(struct rp_recipe *r, const char *path, const char *skip, struct rp_err *err)
{
    RP_BUF text = {0};
    if (rp_read_file(&text, path, 256u << 10, err) < 0)
        return rp_wrap(err, "model.config");
    RP_JSON *j = rp_json_parse(rp_buf_text(&text), text.size, path, err);
    if (!j)
        return rp_wrap(err, "model.config");
    if (!json_is_object(j))
        return rp_fail(err, RP_MALFORMED, "model.config: %.200s: expected a JSON object like the published bert_config.json", path);
    const char *name;
    json_t *value;
    json_object_foreach (j, name, value)
        if (read_config_value(r, name, value, skip, err) < 0)
            return rp_wrap(err, "model.config: %.200s", path);
    return 0;
}

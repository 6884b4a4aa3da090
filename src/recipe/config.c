/* bert_config.json in its published form, or config.json of transformers: a JSON object whose names are the model.* rows of keys.def. */
#include "base/json.h"
#include "base/text.h"
#include "recipe/keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Settings of transformers that affect the arithmetic of no model here: names, labels, generation, what a call returns. pad_token_id: a row
 * that no loss depends on gets no gradient anyway. */
static const char *const harmless[] = {
    "architectures", "_name_or_path", "transformers_version", "torch_dtype", "dtype", "torchscript", "use_cache", "use_bfloat16",
    "attn_implementation",
    "_attn_implementation_autoset", "gradient_checkpointing", "chunk_size_feed_forward", "reorder_and_upcast_attn", "output_attentions",
    "output_hidden_states", "output_past", "return_dict", "is_encoder_decoder", "finetuning_task", "problem_type", "id2label",
    "label2id", "num_labels", "_num_labels", "classifier_dropout", "task_specific_params", "tokenizer_class", "prefix", "bos_token_id",
    "eos_token_id", "pad_token_id", "sep_token_id", "cls_token_id", "mask_token_id", "decoder_start_token_id", "n_ctx", "directionality",
    "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type", "summary_activation",
    "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj", "max_length", "min_length", "do_sample",
    "early_stopping", "num_beams", "num_beam_groups", "diversity_penalty", "temperature", "top_k", "top_p", "typical_p", "repetition_penalty",
    "length_penalty", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences", "output_scores",
    "return_dict_in_generate", "forced_bos_token_id", "forced_eos_token_id", "remove_invalid_values", "exponential_decay_length_penalty",
    "suppress_tokens", "begin_suppress_tokens", "cross_attention_hidden_size", "tie_encoder_decoder", "tf_legacy_loss",
};

/* Settings with one value that can be trained here, as JSON. */
static const struct {
    const char *name, *only;
} fixed[] = {
    {"model_type", "\"bert\""},
    {"position_embedding_type", "\"absolute\""},
    {"is_decoder", "false"},
    {"add_cross_attention", "false"},
    {"tie_word_embeddings", "true"},
    {"pruned_heads", "{}"},
};

int rp_config_is_harmless(const char *name)
{
    return rp_is_in(harmless, sizeof harmless / sizeof *harmless, name, strlen(name));
}

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

static int note_ignored(struct rp_recipe *r, const char *name)
{
    char *list = rp_asprintf("%s%s%s", r->ignored ? r->ignored : "", r->ignored ? ", " : "", name);
    free(r->ignored);
    r->ignored = list;
    return 0;
}

/* As transformers calls what is gelu_tanh here. */
static int is_tanh_gelu(const char *name)
{
    return name && (strcmp(name, "gelu_new") == 0 || strcmp(name, "gelu_pytorch_tanh") == 0);
}

static int read_config_value(struct rp_recipe *r, const char *name, const json_t *value, const char *skip, struct rp_err *err)
{
    char key_name[128], shown[72];
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        if (strcmp(fixed[i].name, name) != 0)
            continue;
        RP_JSON *only = json_loads(fixed[i].only, JSON_DECODE_ANY, NULL);
        return json_equal(value, only) ? note_ignored(r, name)
                                       : rp_fail(err, RP_USAGE, "%s: only %s can be trained here", name, fixed[i].only);
    }
    if (rp_config_is_harmless(name))
        return note_ignored(r, name);
    int k = rp_key_find(RP_FORMAT(key_name, "model.%s", rp_excerpt(shown, name)));
    if (k < 0 || k == RP_KEY_model_config)
        return rp_key_unknown(key_name, err);
    RP_JSON *act = k == RP_KEY_model_hidden_act && is_tanh_gelu(json_string_value(value)) ? json_string("gelu_tanh") : NULL;
    return store_config_value(r, k, act ? act : value, skip, err);
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

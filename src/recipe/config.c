/* config.json of transformers: a JSON object whose names are in the table of its model below; or bert_config.json in
 * its published form, whose names are the model.* rows of keys.def. */
#include "recipe/config.h"

#include "base/json.h"
#include "base/text.h"
#include "recipe/keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Settings of transformers that affect the arithmetic of no model here: names, labels, generation, what a call returns.
 * pad_token_id: a row that no loss depends on gets no gradient anyway. */
static const char *const harmless[] = {
    "architectures", "_name_or_path", "transformers_version", "torch_dtype", "dtype", "torchscript", "use_cache",
    "use_bfloat16",
    "attn_implementation",
    "_attn_implementation_autoset", "gradient_checkpointing", "chunk_size_feed_forward", "reorder_and_upcast_attn",
    "output_attentions", "output_hidden_states", "output_past", "return_dict", "is_encoder_decoder", "finetuning_task",
    "problem_type", "id2label", "label2id", "num_labels", "_num_labels", "classifier_dropout", "task_specific_params",
    "tokenizer_class", "prefix", "bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "cls_token_id",
    "mask_token_id", "decoder_start_token_id", "n_ctx", "directionality", "pooler_fc_size",
    "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type", "summary_activation",
    "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj", "max_length", "min_length",
    "do_sample", "early_stopping", "num_beams", "num_beam_groups", "diversity_penalty", "temperature", "top_k", "top_p",
    "typical_p", "repetition_penalty", "length_penalty", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size",
    "bad_words_ids", "num_return_sequences", "output_scores", "return_dict_in_generate", "forced_bos_token_id",
    "forced_eos_token_id", "remove_invalid_values", "exponential_decay_length_penalty", "suppress_tokens",
    "begin_suppress_tokens", "n_special", "predict_special_tokens", "cross_attention_hidden_size",
    "tie_encoder_decoder",
    "tf_legacy_loss",
};

static const struct rp_public_setting of_bert[] = {
    {"vocab_size", "30522", RP_SETTING_VALUE, "model.vocab_size"},
    {"hidden_size", "768", RP_SETTING_VALUE, "model.hidden_size"},
    {"num_hidden_layers", "12", RP_SETTING_VALUE, "model.num_hidden_layers"},
    {"num_attention_heads", "12", RP_SETTING_VALUE, "model.num_attention_heads"},
    {"intermediate_size", "3072", RP_SETTING_VALUE, "model.intermediate_size"},
    {"hidden_act", "\"gelu\"", RP_SETTING_ACTIVATION, "model.hidden_act"},
    {"hidden_dropout_prob", "0.1", RP_SETTING_VALUE, "model.hidden_dropout_prob"},
    {"attention_probs_dropout_prob", "0.1", RP_SETTING_VALUE, "model.attention_probs_dropout_prob"},
    {"max_position_embeddings", "512", RP_SETTING_VALUE, "model.max_position_embeddings"},
    {"type_vocab_size", "2", RP_SETTING_VALUE, "model.type_vocab_size"},
    {"layer_norm_eps", "1e-12", RP_SETTING_VALUE, "model.layer_norm_eps"},
    {"initializer_range", "0.02", RP_SETTING_SAVED, "model.initializer_range"},
    {"position_embedding_type", "\"absolute\"", RP_SETTING_ONLY, NULL},
    {"is_decoder", "false", RP_SETTING_ONLY, NULL},
    {"add_cross_attention", "false", RP_SETTING_ONLY, NULL},
    {"tie_word_embeddings", "true", RP_SETTING_ONLY, NULL},
    {"pruned_heads", "{}", RP_SETTING_ONLY, NULL},
    {NULL, NULL, RP_SETTING_ONLY, NULL},
};

static const struct rp_public_setting of_gpt[] = {
    {"vocab_size", "50257", RP_SETTING_ROWS, "model.padded_vocab_size"},
    {"n_positions", "1024", RP_SETTING_VALUE, "model.max_position_embeddings"},
    {"n_embd", "768", RP_SETTING_VALUE, "model.hidden_size"},
    {"n_layer", "12", RP_SETTING_VALUE, "model.num_hidden_layers"},
    {"n_head", "12", RP_SETTING_VALUE, "model.num_attention_heads"},
    {"n_inner", "null", RP_SETTING_INNER, "model.intermediate_size"},
    {"activation_function", "\"gelu_new\"", RP_SETTING_ACTIVATION, "model.hidden_act"},
    {"resid_pdrop", "0.1", RP_SETTING_VALUE, "model.hidden_dropout_prob"},
    {"embd_pdrop", "0.1", RP_SETTING_VALUE, "model.embedding_dropout_prob"},
    {"attn_pdrop", "0.1", RP_SETTING_VALUE, "model.attention_probs_dropout_prob"},
    {"layer_norm_epsilon", "1e-5", RP_SETTING_VALUE, "model.layer_norm_eps"},
    {"initializer_range", "0.02", RP_SETTING_SAVED, "model.initializer_range"},
    {"scale_attn_weights", "true", RP_SETTING_ONLY, NULL},
    {"scale_attn_by_inverse_layer_idx", "false", RP_SETTING_ONLY, NULL},
    {"add_cross_attention", "false", RP_SETTING_ONLY, NULL},
    {"tie_word_embeddings", "true", RP_SETTING_ONLY, NULL},
    {"pruned_heads", "{}", RP_SETTING_ONLY, NULL},
    {NULL, NULL, RP_SETTING_ONLY, NULL},
};

static const struct {
    const char *type;
    const struct rp_public_setting *setting;
} public_form[RP_MODEL_COUNT] = {[RP_MODEL_bert] = {"bert", of_bert}, [RP_MODEL_gpt] = {"gpt2", of_gpt}};

static const struct {
    const char *name;
    enum rp_activation is;
} activations[] = {
    {"gelu", RP_ACTIVATION_gelu},           {"gelu_new", RP_ACTIVATION_gelu_tanh},
    {"gelu_tanh", RP_ACTIVATION_gelu_tanh}, {"gelu_pytorch_tanh", RP_ACTIVATION_gelu_tanh},
    {"gelu_python", RP_ACTIVATION_gelu},
};

const struct rp_public_setting *rp_public_settings(const struct rp_recipe *r)
{
    return public_form[r->workload].setting;
}

const char *rp_public_type(const struct rp_recipe *r)
{
    return public_form[r->workload].type;
}

int rp_public_activation(const char *name)
{
    for (size_t i = 0; name && i < sizeof activations / sizeof *activations; i++)
        if (strcmp(name, activations[i].name) == 0)
            return (int)activations[i].is;
    return -1;
}

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

/* A published model has no rows besides: those that take part in the softmax are the words. */
static int store_rows(struct rp_recipe *r, const json_t *value, const char *skip, struct rp_err *err)
{
    return store_config_value(r, RP_KEY_model_vocab_size, value, skip, err) < 0 ||
                   store_config_value(r, RP_KEY_model_padded_vocab_size, value, skip, err) < 0
               ? -1
               : 0;
}

/* config: all of the file. */
static int store_setting(struct rp_recipe *r, const struct rp_public_setting *s, const json_t *value,
                         const json_t *config, const char *skip, struct rp_err *err)
{
    const int key = s->key ? rp_key_find(s->key) : -1;
    RP_JSON *own = NULL; /* the value as a recipe has it, where that is another */
    switch (s->kind) {
    case RP_SETTING_ONLY:
        own = json_loads(s->value, JSON_DECODE_ANY, NULL);
        return json_equal(value, own) ? note_ignored(r, s->name)
                                      : rp_fail(err, RP_USAGE, "%s: only %s can be trained here", s->name, s->value);
    case RP_SETTING_ROWS:
        return store_rows(r, value, skip, err);
    case RP_SETTING_INNER: {
        const json_t *width = json_object_get(config, "n_embd");
        if (json_is_null(value))
            own = json_integer(4 * (json_is_integer(width) ? json_integer_value(width) : r->model_hidden_size));
        break;
    }
    case RP_SETTING_ACTIVATION: {
        const int act = rp_public_activation(json_string_value(value));
        if (act >= 0)
            own = json_string(rp_choice_name(RP_ACTIVATIONS, act));
        break;
    }
    case RP_SETTING_VALUE:
    case RP_SETTING_SAVED:
        break;
    }
    return store_config_value(r, key, own ? own : value, skip, err);
}

/* Before the others, which are those of that model. */
static int check_type(const struct rp_recipe *r, const json_t *config, struct rp_err *err)
{
    const json_t *given = json_object_get(config, "model_type");
    const char *is = json_string_value(given), *type = rp_public_type(r);
    if (!given || (is && type && strcmp(is, type) == 0))
        return 0;
    return rp_fail(err, RP_USAGE, "model_type: only \"%s\" can be trained by this recipe", type ? type : "");
}

static int read_config_value(struct rp_recipe *r, const char *name, const json_t *value, const json_t *config,
                             const char *skip, struct rp_err *err)
{
    char key_name[128], shown[72];
    if (strcmp(name, "model_type") == 0)
        return note_ignored(r, name);
    for (const struct rp_public_setting *s = rp_public_settings(r); s && s->name; s++)
        if (strcmp(s->name, name) == 0)
            return store_setting(r, s, value, config, skip, err);
    if (rp_config_is_harmless(name))
        return note_ignored(r, name);
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
        return rp_fail(err, RP_MALFORMED,
                       "model.config: %.200s: expected a JSON object like config.json of transformers", path);
    if (check_type(r, j, err) < 0)
        return rp_wrap(err, "model.config: %.200s", path);
    const char *name;
    json_t *value;
    json_object_foreach (j, name, value)
        if (read_config_value(r, name, value, j, skip, err) < 0)
            return rp_wrap(err, "model.config: %.200s", path);
    return 0;
}

/* Values in the forms of others: lists as messages and shells write them, config.json of transformers. */
#include "tests/unit/tap.h"

#include "base/buf.h"
#include "recipe/recipe.h"
#include "tests/unit/scratch.h"

/* As a message and a recipe write lists, and as a shell takes words. */
TEST(lists_on_the_command_line_have_the_form_of_a_recipe_or_commas)
{
    static const struct {
        const char *given, *words; /* NULL: refused */
    } c[] = {{"[LayerNorm, bias]", "LayerNorm,bias"}, {"LayerNorm, bias", "LayerNorm,bias"},
             {"LayerNorm,bias", "LayerNorm,bias"}, {"[bias]", "bias"}, {" [ bias ]", NULL}, {"[  a ,b,  c ]", "a,b,c"},
             {"[]", ""}, {"", ""}, {"a b", NULL}, {"[a b]", NULL}, {"a,,b", NULL}, {"[a,]", NULL}, {"[a", NULL},
             {"a]", NULL}, {"[[a]]", NULL}, {"[\"a\"]", NULL}};
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct rp_recipe r;
        struct rp_err err = {0};
        RP_FREE char *set = rp_asprintf("optimizer.exclude_from_weight_decay=%s", c[i].given);
        const char *const sets[] = {set};
        const int failed = rp_recipe_parse(&r, "seed.init: 1\n", 13, "t.yaml", "cpu", sets, 1, &err) < 0;
        CHECK(failed == !c[i].words &&
                  (failed ? err.code == RP_USAGE
                          : strcmp(r.optimizer_exclude ? r.optimizer_exclude : "", c[i].words) == 0),
              "'%s': %s", c[i].given, failed ? err.msg : r.optimizer_exclude);
        if (!failed)
            rp_recipe_fini(&r);
    }
}

/* As GPT2Config.save_pretrained() of transformers 4.46 writes that of "gpt2-medium", and a small one. */
TEST(model_config_of_gpt2)
{
    static const char *const configs[] = {
        "{\"activation_function\": \"gelu_new\", \"architectures\": [\"GPT2LMHeadModel\"], \"attn_pdrop\": 0.1, "
        "\"bos_token_id\": 50256,"
        " \"embd_pdrop\": 0.1, \"eos_token_id\": 50256, \"initializer_range\": 0.02, \"layer_norm_epsilon\": 1e-05, "
        "\"model_type\": \"gpt2\","
        " \"n_ctx\": 1024, \"n_embd\": 1024, \"n_head\": 16, \"n_inner\": null, \"n_layer\": 24, \"n_positions\": 1024,"
        " \"n_special\": 0, \"predict_special_tokens\": true, \"reorder_and_upcast_attn\": false, \"resid_pdrop\": 0.1,"
        " \"scale_attn_by_inverse_layer_idx\": false, \"scale_attn_weights\": true, \"summary_activation\": null,"
        " \"transformers_version\": \"4.46.3\", \"use_cache\": true, \"vocab_size\": 50257}",
        "{\"activation_function\": \"gelu\", \"n_embd\": 64, \"n_head\": 4, \"n_inner\": 100, \"n_layer\": 2, "
        "\"vocab_size\": 1000}",
    };
    static const char *const bad[] = {
        "{\"model_type\": \"bert\"}", "{\"scale_attn_weights\": false}", "{\"activation_function\": \"relu\"}",
        "{\"n_embd\": \"64\"}",       "{\"vocab_size\": 1.5}",           "{\"n_inner\": -1}",
        "{\"rotary_pct\": 0.25}"};
    static const char text[] = "workload: gpt\nmodel.config: config.json\n";
    RP_FREE char *recipe = rp_strdup(put_file("g.yaml", text, strlen(text)));
    struct rp_recipe r;
    struct rp_err err;
    put_file("config.json", configs[0], strlen(configs[0]));
    if (CHECK(rp_recipe_load(&r, recipe, NULL, NULL, 0, &err) == 0, "%s", err.msg)) {
        CHECK(r.model_hidden_size == 1024 && r.model_num_hidden_layers == 24 && r.model_num_attention_heads == 16);
        CHECK(r.model_intermediate_size == 4096 && r.model_vocab_size == 50257 && r.model_padded_vocab_size == 50257);
        CHECK(r.model_hidden_act == RP_ACTIVATION_gelu_tanh && r.model_max_position_embeddings == 1024);
        rp_recipe_fini(&r);
    }
    put_file("config.json", configs[1], strlen(configs[1]));
    if (CHECK(rp_recipe_load(&r, recipe, NULL, NULL, 0, &err) == 0, "%s", err.msg)) {
        CHECK(r.model_hidden_size == 64 && r.model_intermediate_size == 100 && r.model_vocab_size == 1000 &&
              r.model_padded_vocab_size == 1000);
        CHECK(r.model_hidden_act == RP_ACTIVATION_gelu && r.model_max_position_embeddings == 1024);
        rp_recipe_fini(&r);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put_file("config.json", bad[i], strlen(bad[i]));
        REFUSED(rp_recipe_load(&r, recipe, NULL, NULL, 0, &err) < 0, err.msg);
    }
}

/* As BertConfig.save_pretrained() of transformers 4.46 writes it, and as to_json_file(use_diff=False) with every
 * default. */
TEST(model_config_of_transformers)
{
    static const char *const configs[] = {
        "{\n  \"_name_or_path\": \"x\",\n  \"architectures\": [\"BertForPreTraining\"],\n  "
        "\"attention_probs_dropout_prob\": 0.1,\n"
        "  \"classifier_dropout\": null,\n  \"gradient_checkpointing\": false,\n  \"hidden_act\": \"gelu\",\n  "
        "\"hidden_dropout_prob\": 0.1,\n"
        "  \"hidden_size\": 256,\n  \"initializer_range\": 0.02,\n  \"intermediate_size\": 1024,\n  "
        "\"layer_norm_eps\": 1e-12,\n"
        "  \"max_position_embeddings\": 512,\n  \"model_type\": \"bert\",\n  \"num_attention_heads\": 4,\n  "
        "\"num_hidden_layers\": 4,\n"
        "  \"pad_token_id\": 0,\n  \"position_embedding_type\": \"absolute\",\n  \"torch_dtype\": \"float32\",\n"
        "  \"transformers_version\": \"4.46.3\",\n  \"type_vocab_size\": 2,\n  \"use_cache\": true,\n  \"vocab_size\": "
        "30522\n}\n",
        "{\"add_cross_attention\": false, \"bad_words_ids\": null, \"chunk_size_feed_forward\": 0, \"hidden_act\": "
        "\"gelu_new\", \"hidden_size\": 256,"
        " \"id2label\": {\"0\": \"LABEL_0\", \"1\": \"LABEL_1\"}, \"is_decoder\": false, \"num_attention_heads\": 4, "
        "\"num_hidden_layers\": 4,"
        " \"intermediate_size\": 1024, \"pruned_heads\": {}, \"task_specific_params\": null, \"tie_word_embeddings\": "
        "true}",
    };
    static const char *const bad[] = {"{\"is_decoder\": true}", "{\"add_cross_attention\": true}",
                                      "{\"tie_word_embeddings\": false}", "{\"pruned_heads\": {\"1\": [0]}}",
                                      "{\"model_type\": \"gpt2\"}"};
    static const char text[] = "model.config: config.json\n";
    RP_FREE char *recipe = rp_strdup(put_file("c.yaml", text, strlen(text)));
    struct rp_recipe r;
    struct rp_err err;
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        put_file("config.json", configs[i], strlen(configs[i]));
        if (!CHECK(rp_recipe_load(&r, recipe, NULL, NULL, 0, &err) == 0, "%s", err.msg))
            continue;
        CHECK(r.model_hidden_size == 256 && r.model_num_hidden_layers == 4 &&
              r.model_hidden_act == (i ? RP_ACTIVATION_gelu_tanh : RP_ACTIVATION_gelu));
        rp_recipe_fini(&r);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put_file("config.json", bad[i], strlen(bad[i]));
        CHECK(rp_recipe_load(&r, recipe, NULL, NULL, 0, &err) < 0 && err.code == RP_USAGE &&
                  strstr(err.msg, "can be trained"),
              "%s: %s", bad[i], err.msg);
    }
}

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
    } c[] = {{"[LayerNorm, bias]", "LayerNorm,bias"}, {"LayerNorm, bias", "LayerNorm,bias"}, {"LayerNorm,bias", "LayerNorm,bias"}, {"[bias]", "bias"},
             {" [ bias ]", NULL}, {"[  a ,b,  c ]", "a,b,c"}, {"[]", ""}, {"", ""}, {"a b", NULL}, {"[a b]", NULL}, {"a,,b", NULL}, {"[a,]", NULL}, {"[a", NULL},
             {"a]", NULL}, {"[[a]]", NULL}, {"[\"a\"]", NULL}};
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct rp_recipe r;
        struct rp_err err = {0};
        RP_FREE char *set = rp_asprintf("optimizer.exclude_from_weight_decay=%s", c[i].given);
        const char *const sets[] = {set};
        const int failed = rp_recipe_parse(&r, "seed.init: 1\n", 13, "t.yaml", "cpu", sets, 1, &err) < 0;
        CHECK(failed == !c[i].words && (failed ? err.code == RP_USAGE : strcmp(r.optimizer_exclude ? r.optimizer_exclude : "", c[i].words) == 0), "'%s': %s", c[i].given,
              failed ? err.msg : r.optimizer_exclude);
        if (!failed)
            rp_recipe_fini(&r);
    }
}

/* As BertConfig.save_pretrained() of transformers 4.46 writes it, and as to_json_file(use_diff=False) with every default. */
TEST(model_config_of_transformers)
{
    static const char *const configs[] = {
        "{\n  \"_name_or_path\": \"x\",\n  \"architectures\": [\"BertForPreTraining\"],\n  \"attention_probs_dropout_prob\": 0.1,\n"
        "  \"classifier_dropout\": null,\n  \"gradient_checkpointing\": false,\n  \"hidden_act\": \"gelu\",\n  \"hidden_dropout_prob\": 0.1,\n"
        "  \"hidden_size\": 256,\n  \"initializer_range\": 0.02,\n  \"intermediate_size\": 1024,\n  \"layer_norm_eps\": 1e-12,\n"
        "  \"max_position_embeddings\": 512,\n  \"model_type\": \"bert\",\n  \"num_attention_heads\": 4,\n  \"num_hidden_layers\": 4,\n"
        "  \"pad_token_id\": 0,\n  \"position_embedding_type\": \"absolute\",\n  \"torch_dtype\": \"float32\",\n"
        "  \"transformers_version\": \"4.46.3\",\n  \"type_vocab_size\": 2,\n  \"use_cache\": true,\n  \"vocab_size\": 30522\n}\n",
        "{\"add_cross_attention\": false, \"bad_words_ids\": null, \"chunk_size_feed_forward\": 0, \"hidden_act\": \"gelu_new\", \"hidden_size\": 256,"
        " \"id2label\": {\"0\": \"LABEL_0\", \"1\": \"LABEL_1\"}, \"is_decoder\": false, \"num_attention_heads\": 4, \"num_hidden_layers\": 4,"
        " \"intermediate_size\": 1024, \"pruned_heads\": {}, \"task_specific_params\": null, \"tie_word_embeddings\": true}",
    };
    static const char *const bad[] = {"{\"is_decoder\": true}", "{\"add_cross_attention\": true}", "{\"tie_word_embeddings\": false}",
                                      "{\"pruned_heads\": {\"1\": [0]}}", "{\"model_type\": \"gpt2\"}"};
    static const char text[] = "model.config: config.json\n";
    RP_FREE char *recipe = rp_strdup(put_file("c.yaml", text, strlen(text)));
    struct rp_recipe r;
    struct rp_err err;
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        put_file("config.json", configs[i], strlen(configs[i]));
        if (!CHECK(rp_recipe_load(&r, recipe, NULL, NULL, 0, &err) == 0, "%s", err.msg))
            continue;
        CHECK(r.model_hidden_size == 256 && r.model_num_hidden_layers == 4 && r.model_hidden_act == (i ? RP_ACTIVATION_gelu_tanh : RP_ACTIVATION_gelu));
        rp_recipe_fini(&r);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put_file("config.json", bad[i], strlen(bad[i]));
        CHECK(rp_recipe_load(&r, recipe, NULL, NULL, 0, &err) < 0 && err.code == RP_USAGE && strstr(err.msg, "can be trained here"), "%s: %s", bad[i], err.msg);
    }
}

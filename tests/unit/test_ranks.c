/* Data-parallel ranks: the same losses, norms and state roots as one rank, whatever divides the micro-batches and the weights. */
#include "ops/philox.h"

#include "tests/unit/noise_images.h"
#include "tests/unit/scratch.h"
#include "tests/unit/trials.h"

static struct rp_degrees data_ranks(int n)
{
    return (struct rp_degrees){n, 1, 1};
}

/* Tensors of several chunks, so that shares end within them. */
static struct rp_recipe wide_bert(void)
{
    struct rp_recipe r = small_recipe();
    r.model_vocab_size = 701;
    r.model_intermediate_size = 400;
    r.model_hidden_dropout_prob = r.model_attention_probs_dropout_prob = 0.1f;
    return r;
}

static struct rp_recipe wide_gpt(void)
{
    struct rp_recipe r = small_gpt();
    r.model_vocab_size = 701;
    r.model_padded_vocab_size = 704;
    r.model_intermediate_size = 400;
    r.model_num_attention_heads = 4;
    r.model_hidden_dropout_prob = r.model_embedding_dropout_prob = 0.1f;
    return r;
}

static void check_worlds(struct rp_recipe recipe, int64_t micros, const int *ranks, const char *what)
{
    struct rp_err err;
    struct trial one = trial_new(recipe, micros);
    CHECK(trial_run(&one, data_ranks(1), NULL, &err) == 0, "%s: %s", what, err.msg);
    for (; *ranks; ranks++) {
        struct trial many = one;
        memset(many.trace, 0, sizeof many.trace);
        CHECK(trial_run(&many, data_ranks(*ranks), NULL, &err) == 0, "%s, %d ranks: %s", what, *ranks, err.msg);
        compare(&one.trace[0], &many, data_ranks(*ranks), what);
        traces_fini(many.trace, *ranks);
    }
    traces_fini(one.trace, 1);
    trial_fini(&one);
}

TEST(bert_on_any_number_of_ranks)
{
    check_worlds(wide_bert(), 8, (const int[]){2, 3, 8, 0}, "8 micro-batches");
}

TEST(bert_with_an_odd_number_of_micro_batches)
{
    check_worlds(wide_bert(), 13, (const int[]){4, 13, 0}, "13 micro-batches");
}

TEST(gpt_whose_embedding_is_used_twice)
{
    check_worlds(wide_gpt(), 6, (const int[]){3, 6, 0}, "GPT");
}

TEST(gpt_with_the_arithmetic_of_tensor_ranks)
{
    struct rp_recipe r = wide_gpt();
    r.parallel_tensor = 4;
    check_worlds(r, 4, (const int[]){2, 3, 0}, "GPT, tensor 4");
}

TEST(optimizers_that_adapt_each_tensor)
{
    struct rp_recipe r = wide_bert();
    r.optimizer_name = RP_OPTIMIZER_lamb;
    check_worlds(r, 5, (const int[]){2, 5, 0}, "LAMB");
}

/* Batch norms: running statistics are means over all micro-batches. LARS adapts each tensor. */
TEST(resnet_on_any_number_of_ranks)
{
    static const char yaml[] = "workload: resnet50\nmodel: {width: 8, blocks: \"1,1,1,1\", num_classes: 7}\ntask: {image_size: 32}\n"
                               "train: {batch_size: 2, accumulation_steps: 6}\noptimizer: {name: lars, learning_rate: 1}\n"
                               "schedule: {total_steps: 10}\n";
    struct rp_err err = {0};
    struct trial one = {.format = &noise_format};
    CHECK(rp_recipe_parse(&one.recipe, yaml, sizeof yaml - 1, "noise.yaml", NULL, NULL, 0, &err) == 0, "%s", err.msg);
    CHECK(trial_run(&one, data_ranks(1), NULL, &err) == 0, "%s", err.msg);
    for (int ranks = 2; ranks <= 6; ranks += ranks == 3 ? 3 : 1) {
        struct trial many = one;
        CHECK(trial_run(&many, data_ranks(ranks), NULL, &err) == 0, "%d ranks: %s", ranks, err.msg);
        compare(&one.trace[0], &many, data_ranks(ranks), "ResNet");
        traces_fini(many.trace, ranks);
    }
    traces_fini(one.trace, 1);
    trial_fini(&one);
}

/* 12 ranks on 3 hosts of 4: first within the hosts. Other arrangements of the same ranks: all with all, and the same bits. */
TEST(by_host_and_flat)
{
    static const int hosts[][12] = {
        {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}, /* regular */
        {0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1}, /* neighbours on different hosts */
        {0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2}, /* hosts of different size */
        {5, 5, 5, 5, 2, 2, 2, 2, 5, 5, 5, 5}, /* a host twice */
    };
    struct rp_err err;
    struct trial one = trial_new(wide_bert(), 12);
    CHECK(trial_run(&one, data_ranks(1), NULL, &err) == 0, "%s", err.msg);
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        struct trial many = one;
        char what[32];
        snprintf(what, sizeof what, "arrangement %zu", i);
        CHECK(trial_run(&many, data_ranks(12), hosts[i], &err) == 0, "%s: %s", what, err.msg);
        compare(&one.trace[0], &many, data_ranks(12), what);
        for (int r = 0; r < 12; r++)
            CHECK(many.trace[r].levels == (i == 0 ? 2 : 1), "%s: %d levels", what, many.trace[r].levels);
        traces_fini(many.trace, 12);
    }
    traces_fini(one.trace, 1);
    trial_fini(&one);
}

/* Rule 22: gradients and weights of 2, 4 hosts of 8 ranks leave a host as 1.0, 1.5 times the model. */
TEST(bytes_that_leave_a_host)
{
    struct rp_recipe r = wide_bert();
    r.train_accumulation_steps = 32;
    struct rp_net *m = rp_net_new(&r, 1);
    for (int hosts = 2; hosts <= 4; hosts += 2) {
        int host[32];
        uint64_t between = 0;
        for (int i = 0; i < hosts * 8; i++)
            host[i] = i / 8;
        for (int i = 0; i < 8; i++) {
            struct rp_comm c = {.host = host};
            struct rp_shares shares;
            struct rp_exchange x;
            rp_comm_place(&c, i, (struct rp_degrees){hosts * 8, 1, 1});
            rp_shares_init(&shares, &m->tensors[RP_WEIGHT], 1, &c);
            rp_exchange_open(&x, m, &shares, 32);
            CHECK(x.levels == 2, "levels");
            between += x.between_bytes;
            rp_exchange_close(&x);
            rp_shares_fini(&shares);
        }
        const double models = (double)between / (double)m->tensors[RP_WEIGHT].bytes, expected = 2.0 * (hosts - 1) / hosts;
        CHECK(models > 0.9 * expected && models < 1.1 * expected, "%d hosts: %.2f models, not %.2f", hosts, models, expected);
    }
    rp_net_free(m);
    rp_recipe_fini(&r);
}

/* Every rank computes with what it has: the definitions, scalar code, AVX2, AVX-512, one thread or three. */
TEST(ranks_of_different_devices)
{
    static const struct trial_device device[] = {{"scalar", 1}, {"avx512", 1}, {"avx2", 3}, {"reference", 1}, {"avx2", 1}};
    struct rp_err err;
    for (int gpt = 0; gpt < 2; gpt++) {
        struct trial one = trial_new(gpt ? wide_gpt() : wide_bert(), 6);
        CHECK(trial_run(&one, data_ranks(1), NULL, &err) == 0, "%s", err.msg);
        struct trial many = one;
        many.device = device;
        many.devices = sizeof device / sizeof *device;
        CHECK(trial_run(&many, data_ranks(5), NULL, &err) == 0, "%s", err.msg);
        compare(&one.trace[0], &many, data_ranks(5), gpt ? "GPT" : "BERT");
        traces_fini(many.trace, 5);
        traces_fini(one.trace, 1);
        trial_fini(&one);
    }
}

/* A checkpoint of several ranks is that of one, to the byte, and either continues the other. */
TEST(checkpoints_of_several_ranks)
{
    struct rp_err err;
    RP_FREE char *first = rp_strdup(scratch("one.safetensors")), *second = rp_strdup(scratch("three.safetensors"));
    RP_BUF a = {0}, b = {0};
    struct trial one = trial_new(wide_bert(), 7), three;
    one.save = first;
    CHECK(trial_run(&one, data_ranks(1), NULL, &err) == 0, "%s", err.msg);
    three = one;
    three.save = second;
    CHECK(trial_run(&three, data_ranks(3), NULL, &err) == 0, "%s", err.msg);
    CHECK(rp_read_file(&a, first, 1 << 26, &err) == 0 && rp_read_file(&b, second, 1 << 26, &err) == 0, "%s", err.msg);
    CHECK(a.size == b.size && !memcmp(a.data, b.data, a.size), "the files differ");
    traces_fini(one.trace, 1);
    traces_fini(three.trace, 3);
    one.save = three.save = NULL;
    one.recipe.run_init = second;
    CHECK(trial_run(&one, data_ranks(1), NULL, &err) == 0, "%s", err.msg);
    three.recipe.run_init = first;
    CHECK(trial_run(&three, data_ranks(3), NULL, &err) == 0, "%s", err.msg);
    compare(&one.trace[0], &three, data_ranks(3), "continued");
    traces_fini(one.trace, 1);
    traces_fini(three.trace, 3);
    one.recipe.run_init = NULL; /* not the recipe's own */
    trial_fini(&one);
}

/* The comparison would notice: one element of one rank, in a weight that another rank updates. */
TEST(a_disturbed_rank_is_noticed)
{
    struct rp_err err;
    struct trial one = trial_new(wide_bert(), 4), two;
    CHECK(trial_run(&one, data_ranks(1), NULL, &err) == 0, "%s", err.msg);
    two = one;
    two.wrong = "bert.embeddings.word_embeddings.weight";
    CHECK(trial_run(&two, data_ranks(2), NULL, &err) == 0, "%s", err.msg);
    CHECK(two.trace[0].loss[1] != one.trace[0].loss[1], "the loss of the next step is the same");
    traces_fini(one.trace, 1);
    traces_fini(two.trace, 2);
    trial_fini(&one);
}

TEST(more_ranks_than_micro_batches)
{
    struct rp_err err;
    struct trial t = trial_new(wide_bert(), 3);
    CHECK(trial_run(&t, data_ranks(4), NULL, &err) < 0 && err.code == RP_USAGE, "%s", err.msg);
    trial_fini(&t);
}

/* All ranks name the same tensor, although only one has it in its share. */
static int explode(struct rp_comm *c, void *arg, struct rp_err *err)
{
    return run_rank(c, arg, err) == 0 ? rp_fail(err, RP_BUG, "trained") : err->code == RP_MISMATCH ? 0 : -1;
}

TEST(a_norm_that_is_not_finite_fails_on_every_rank)
{
    struct rp_err err = {0};
    struct trial t = trial_new(wide_bert(), 4);
    t.recipe.optimizer_learning_rate = 1e30;
    fixture_data_now = t.data;
    CHECK(ranks_run((struct rp_degrees){2, 1, 1}, NULL, explode, &t, &err) == 0, "%s", err.msg);
    traces_fini(t.trace, 2);
    trial_fini(&t);
}

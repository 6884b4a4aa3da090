/* Data-parallel ranks: the same losses, norms and state roots as one rank, whatever divides the micro-batches and the
 * weights. */
/* exhaustive */
#include "ops/philox.h"

#include "tests/unit/noise_images.h"
#include "tests/unit/scratch.h"
#include "tests/unit/trials.h"

#include <stdatomic.h>
#include <unistd.h>

static struct rp_degrees data_ranks(int n)
{
    return (struct rp_degrees){n, 1, 1};
}

/* Tensors of several chunks, so that shares end within them, and a bucket for each layer. */
static struct rp_recipe wide_bert(void)
{
    struct rp_recipe r = small_recipe();
    r.run_overlap_kib = 1;
    r.model_vocab_size = 701;
    r.model_intermediate_size = 400;
    r.model_hidden_dropout_prob = r.model_attention_probs_dropout_prob = 0.1f;
    return r;
}

static struct rp_recipe wide_gpt(void)
{
    struct rp_recipe r = small_gpt();
    r.run_overlap_kib = 1;
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
        for (int r = 0; r < *ranks; r++)
            CHECK(many.trace[r].overlaps == (recipe.run_overlap_kib > 0) &&
                      (many.trace[r].buckets > 2) == (recipe.run_overlap_kib == 1),
                  "%s: %d buckets, overlap %d", what, many.trace[r].buckets, many.trace[r].overlaps);
        traces_fini(many.trace, *ranks);
    }
    traces_fini(one.trace, 1);
    trial_fini(&one);
}

TEST(bert_on_any_number_of_ranks)
{
    check_worlds(wide_bert(), 8, (const int[]){2, 3, 8, 0}, "8 micro-batches");
}

TEST(perturbations_on_any_number_of_ranks)
{
    struct rp_recipe r = wide_bert();
    r.seed_perturbation = 99;
    check_worlds(r, 8, (const int[]){2, 3, 0}, "perturbed");
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
    static const char yaml[] =
        "workload: resnet50\nmodel: {width: 8, blocks: \"1,1,1,1\", num_classes: 7}\ntask: {image_size: 32}\nrun: "
        "{overlap_kib: 4}\n"
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

/* 12 ranks on 3 hosts of 4: first within the hosts. Other arrangements of the same ranks: all with all, and the same
 * bits. */
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
            rp_comm_set_coords(&c, i, (struct rp_degrees){hosts * 8, 1, 1});
            /* in more buckets these few weights are too few for 32 ranks */
            rp_shares_init(&shares, &m->tensors[RP_WEIGHT], 1, &c, 0);
            rp_exchange_open(&x, m, &shares, 32);
            CHECK(x.levels == 2, "levels");
            between += x.between_bytes;
            rp_exchange_close(&x);
            rp_shares_fini(&shares);
        }
        const double models = (double)between / (double)m->tensors[RP_WEIGHT].bytes,
                     expected = 2.0 * (hosts - 1) / hosts;
        CHECK(models > 0.9 * expected && models < 1.1 * expected, "%d hosts: %.2f models, not %.2f", hosts, models,
              expected);
    }
    rp_net_free(m);
    rp_recipe_fini(&r);
}

/* Every rank computes with what it has: the definitions, scalar code, AVX2, AVX-512, one thread or three. */
TEST(ranks_of_different_devices)
{
    static const struct trial_device device[] = {
        {"scalar", 1}, {"avx512", 1}, {"avx2", 3}, {"reference", 1}, {"avx2", 1}};
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

/* ---- overlap with the backward pass ---- */

/* Exchanges of gradients by other threads than those of ranks, and those that were made to fail. */
static atomic_int beside, broken;
static _Thread_local int is_rank;
static int breaks; /* the rank whose thread cannot exchange; -1: none */

static int exchange_watched(struct rp_comm *c, enum rp_group g, const struct rp_transfer *t, int n, struct rp_err *err)
{
    if (is_rank)
        return ranks_exchange(c, g, t, n, err);
    CHECK(g == RP_GROUP_DATA, "the thread exchanges in group %d", (int)g);
    atomic_fetch_add(&beside, 1);
    if (c->rank[RP_GROUP_WORLD] == breaks) {
        c->lost = 1 - breaks;
        atomic_fetch_add(&broken, 1);
        return rp_fail(err, RP_UNAVAILABLE, "the wire broke");
    }
    return ranks_exchange(c, g, t, n, err);
}

static int run_watched(struct rp_comm *c, void *arg, struct rp_err *err)
{
    static const struct rp_comm_ops watched = {.exchange = exchange_watched, .close = ranks_close};
    is_rank = 1;
    c->op = &watched;
    const int failed = run_rank(c, arg, err);
    CHECK(!c->waiting, "the communicator was not given back");
    return failed;
}

/*
 * In the backward pass of the last micro-batch: waits until a thread exchanges, or the one that is to fail has. A
 * thread that has not begun when the backward pass ends leaves the exchange to its rank.
 */
static int wait_for_thread(void *arg)
{
    const struct trace *is = arg;
    int last = 0;
    for (int i = 0; is->train && i < is->train->sets; i++)
        last |= is->train->set[i]->gradients_ready != NULL;
    for (int i = 0; last && !atomic_load(breaks < 0 ? &beside : &broken) && i < 20000; i++)
        usleep(1000);
    return 0;
}

static struct trial overlapped_trial(struct trial *one, int fails)
{
    struct trial many = *one;
    memset(many.trace, 0, sizeof many.trace);
    many.alive = wait_for_thread;
    atomic_store(&beside, 0);
    atomic_store(&broken, 0);
    breaks = fails;
    fixture_data_now = one->data;
    return many;
}

/* Gradients travel before the backward pass has ended. */
TEST(gradients_travel_during_the_backward_pass)
{
    struct rp_err err = {0};
    struct trial one = trial_new(wide_bert(), 4);
    CHECK(trial_run(&one, data_ranks(1), NULL, &err) == 0, "%s", err.msg);
    struct trial many = overlapped_trial(&one, -1);
    CHECK(ranks_run(data_ranks(2), NULL, run_watched, &many, &err) == 0, "%s", err.msg);
    CHECK(atomic_load(&beside) > 0, "no thread exchanged anything");
    compare(&one.trace[0], &many, data_ranks(2), "overlapped");
    traces_fini(many.trace, 2);
    traces_fini(one.trace, 1);
    trial_fini(&one);
}

/* The failure of a thread is that of its rank. */
TEST(a_failed_exchange_of_the_thread_ends_the_training)
{
    struct rp_err err = {0};
    struct trial one = trial_new(wide_bert(), 4);
    for (int rank = 0; rank < 2; rank++) {
        struct trial many = overlapped_trial(&one, rank);
        CHECK(ranks_run(data_ranks(2), NULL, run_watched, &many, &err) < 0 && err.code == RP_UNAVAILABLE &&
                  !strcmp(err.msg, "the wire broke"),
              "rank %d: %s", rank, err.msg);
        traces_fini(many.trace, 2);
    }
    trial_fini(&one);
}

/* Rank 0 is asked to stop in its last backward pass, while its thread waits for rank 1. */
static int stop_rank(void *arg)
{
    const struct trace *is = arg;
    const struct rp_train *t = is->train;
    return t && t->comm->rank[RP_GROUP_WORLD] == 0 && t->set[0]->gradients_ready;
}

TEST(a_rank_that_is_stopped_in_the_backward_pass)
{
    struct rp_err err = {0};
    struct trial one = trial_new(wide_bert(), 4), many = overlapped_trial(&one, -1);
    many.alive = stop_rank;
    CHECK(ranks_run(data_ranks(2), NULL, run_watched, &many, &err) < 0 && err.code == RP_INTERRUPTED, "%s", err.msg);
    traces_fini(many.trace, 2);
    trial_fini(&one);
}

/* One bucket, and no thread. */
TEST(without_overlap)
{
    struct rp_recipe bert = wide_bert();
    bert.run_overlap_kib = 0;
    check_worlds(bert, 5, (const int[]){3, 0}, "off");
}

/* ---- replicated optimizer state ---- */

TEST(replicated_optimizer_state)
{
    struct rp_recipe bert = wide_bert(), lamb = wide_bert(), gpt = wide_gpt();
    bert.parallel_optimizer_state = lamb.parallel_optimizer_state = gpt.parallel_optimizer_state =
        RP_OPTIMIZER_STATE_replicated;
    lamb.optimizer_name = RP_OPTIMIZER_lamb;
    lamb.run_overlap_kib = 0;
    check_worlds(bert, 5, (const int[]){2, 3, 0}, "BERT, replicated");
    check_worlds(lamb, 3, (const int[]){2, 3, 0}, "LAMB, replicated");
    check_worlds(gpt, 3, (const int[]){2, 3, 0}, "GPT, replicated");
}

/* Files of either form are the same, and either goes on from the other. */
TEST(checkpoints_of_replicated_state)
{
    struct rp_err err;
    RP_FREE char *first = rp_strdup(scratch("sharded.safetensors")),
                 *second = rp_strdup(scratch("replicated.safetensors"));
    RP_BUF a = {0}, b = {0};
    struct trial sharded = trial_new(wide_bert(), 3), replicated;
    sharded.save = first;
    CHECK(trial_run(&sharded, data_ranks(3), NULL, &err) == 0, "%s", err.msg);
    replicated = sharded;
    replicated.save = second;
    replicated.recipe.parallel_optimizer_state = RP_OPTIMIZER_STATE_replicated;
    CHECK(trial_run(&replicated, data_ranks(2), NULL, &err) == 0, "%s", err.msg);
    CHECK(rp_read_file(&a, first, 1 << 26, &err) == 0 && rp_read_file(&b, second, 1 << 26, &err) == 0, "%s", err.msg);
    CHECK(a.size == b.size && !memcmp(a.data, b.data, a.size), "the files differ");
    traces_fini(sharded.trace, 3);
    traces_fini(replicated.trace, 2);
    sharded.save = replicated.save = NULL;
    sharded.recipe.run_init = second;
    replicated.recipe.run_init = first;
    CHECK(trial_run(&sharded, data_ranks(3), NULL, &err) == 0, "%s", err.msg);
    CHECK(trial_run(&replicated, data_ranks(3), NULL, &err) == 0, "%s", err.msg);
    sharded.trace[0].samples += sharded.trace[1].samples + sharded.trace[2].samples; /* as of one rank */
    compare(&sharded.trace[0], &replicated, data_ranks(3), "continued");
    traces_fini(sharded.trace, 3);
    traces_fini(replicated.trace, 3);
    sharded.recipe.run_init = NULL;
    trial_fini(&sharded);
}

static struct rp_plan plan_of(const struct rp_recipe *r, int ranks, int rank)
{
    struct rp_err err = {0};
    struct rp_comm c = {.lost = -1};
    struct rp_plan plan = {0};
    rp_comm_set_coords(&c, rank, data_ranks(ranks));
    CHECK(rp_train_size(&plan, r, &c, &reference_backend, &(struct rp_device_opts){0}, &err) == 0, "%s", err.msg);
    return plan;
}

/* Replicated slots are those of one rank, sharded ones add up to them; ranks need memory for their connections. */
TEST(plans_of_replicated_state)
{
    struct rp_recipe r = wide_bert();
    r.train_accumulation_steps = 3;
    uint64_t slots = 0;
    const uint64_t all = plan_of(&r, 1, 0).bytes[RP_CLASS_OPTIMIZER];
    for (int i = 0; i < 3; i++) {
        const struct rp_plan p = plan_of(&r, 3, i);
        slots += p.bytes[RP_CLASS_OPTIMIZER];
        /* 3 pairs of 3 ranks have 2 rings each */
        CHECK(p.connections == 2 * (1 << 20) + 4096, "connections: %llu", (unsigned long long)p.connections);
    }
    CHECK(slots == all, "%llu bytes of slots, one rank has %llu", (unsigned long long)slots, (unsigned long long)all);
    r.parallel_optimizer_state = RP_OPTIMIZER_STATE_replicated;
    CHECK(plan_of(&r, 3, 1).bytes[RP_CLASS_OPTIMIZER] == all && plan_of(&r, 1, 0).connections == 0, "replicated");
    rp_recipe_fini(&r);
}

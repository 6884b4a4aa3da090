/* Mixed precision with divided optimizer state: data-parallel ranks gather 16-bit copies of matrices, and keep masters
 * of their own share. The bits of one rank, half of the bytes, and faults that the comparison has to find. */
/* exhaustive */
#include "tests/unit/mixed_trials.h"
#include "tests/unit/scratch.h"

static const struct trial_device wide_and_narrow[] = {{"avx2", 1}, {"narrow", 1}, {"reference", 1}};

static struct rp_degrees data_ranks(int n)
{
    return (struct rp_degrees){n, 1, 1};
}

static void run(struct trial *t, struct rp_degrees by, const int *host, const char *what)
{
    struct rp_err err;
    memset(t->trace, 0, sizeof t->trace);
    CHECK(trial_run(t, by, host, &err) == 0, "%s: %s", what, err.msg);
}

/* Devices that keep 4 and 2 bytes of a stored number send the same messages. On two hosts a share is gathered twice.
 * Three ranks or four in turn, with LONG=1 both for each model. */
TEST(ranks_of_devices_with_two_and_four_bytes)
{
    static const int hosts[] = {0, 0, 1, 1};
    for (int m = 0; m < MODELS; m++)
        for (int n = tap_long() ? 3 : 4 - m % 2; n <= (tap_long() ? 4 : 4 - m % 2); n++) {
            struct trial one = trial_of((enum model)m, recipe_of((enum model)m, &contracts[m + 1], 1), 4), many = one;
            run(&one, data_ranks(1), NULL, model_names[m]);
            many.device = wide_and_narrow;
            many.devices = sizeof wide_and_narrow / sizeof *wide_and_narrow;
            run(&many, data_ranks(n), n == 4 ? hosts : NULL, model_names[m]);
            compare(&one.trace[0], &many, data_ranks(n), model_names[m]);
            CHECK(many.trace[0].levels == n - 2, "%d levels", many.trace[0].levels);
            traces_fini(many.trace, n);
            traces_fini(one.trace, 1);
            trial_fini(&one);
        }
}

/* Gathered gradients of all weights are floats; gathered copies of matrices have 2 bytes, of vectors 4. */
TEST(bytes_of_gathered_copies)
{
    for (int m = 0; m < MODELS; m++)
        for (int n = 2; n <= 3; n++) {
            struct rp_recipe r = recipe_of((enum model)m, &contracts[1], 1);
            struct trial divided = trial_of((enum model)m, r, 6), replicated = divided;
            struct rp_net *net = rp_net_new(&divided.recipe, 2);
            const struct rp_tensors *w = &net->tensors[RP_WEIGHT];
            uint64_t matrices = 0, saved = 0;
            for (int i = 0; i < w->n; i++)
                matrices += rp_tensor_dims(&w->t[i]) > 1 ? w->t[i].count * (uint64_t)(n - 1) : 0;
            replicated.recipe.parallel_optimizer_state = RP_OPTIMIZER_STATE_replicated;
            run(&divided, data_ranks(n), NULL, model_names[m]);
            run(&replicated, data_ranks(n), NULL, model_names[m]);
            for (int k = 0; k < n; k++) {
                const struct trace *is = &divided.trace[k];
                saved += replicated.trace[k].sent - is->sent;
                CHECK(is->moved >= is->sent && is->moved - is->sent < (uint64_t)n * 8192,
                      "%s: rank %d of %d sent %llu bytes, not %llu", model_names[m], k, n,
                      (unsigned long long)is->moved, (unsigned long long)is->sent);
            }
            CHECK(saved >= 2 * matrices && saved <= 2 * matrices + 64u * (unsigned)(w->n * (n - 1)),
                  "%s, %d ranks: %llu bytes saved, not %llu", model_names[m], n, (unsigned long long)saved,
                  (unsigned long long)(2 * matrices));
            rp_net_free(net);
            traces_fini(divided.trace, n);
            traces_fini(replicated.trace, n);
            trial_fini(&divided);
        }
}

/* All ranks together have the master of every element of a matrix once; vectors, which operations take as they are, all
 * of them have. A line of 16 floats may be empty before each tensor. */
TEST(masters_of_a_share_are_all_that_a_rank_has)
{
    for (int m = 0; m < MODELS; m++)
        for (int n = 2; n <= 4; n++) {
            struct trial divided = trial_of((enum model)m, recipe_of((enum model)m, &contracts[1], 1), 4);
            struct rp_net *net = rp_net_new(&divided.recipe, 2);
            const struct rp_tensors *w = &net->tensors[RP_WEIGHT];
            size_t matrices = 0, vectors = 0, masters = 0;
            for (int i = 0; i < w->n; i++)
                *(rp_tensor_dims(&w->t[i]) > 1 ? &matrices : &vectors) += w->t[i].count;
            run(&divided, data_ranks(n), NULL, model_names[m]);
            for (int k = 0; k < n; k++) {
                masters += divided.trace[k].masters;
                CHECK(divided.trace[k].masters < matrices, "%s, rank %d of %d: %zu masters", model_names[m], k, n,
                      divided.trace[k].masters);
            }
            const size_t once = matrices + (size_t)n * vectors;
            CHECK(masters >= once && masters <= once + 16 * (size_t)(n * (w->n + 1)),
                  "%s, %d ranks: %zu masters, not %zu", model_names[m], n, masters, once);
            rp_net_free(net);
            traces_fini(divided.trace, n);
            trial_fini(&divided);
        }
}

/* The squares of all weights are a part of the loss, and no rank has all masters. */
TEST(squared_weights_of_divided_masters)
{
    struct rp_recipe r = recipe_of(RESNET, &contracts[1], 1);
    r.optimizer_weight_decay = 0.1;
    r.optimizer_weight_decay_form = RP_DECAY_FORM_loss;
    struct trial one = trial_of(RESNET, r, 4);
    run(&one, data_ranks(1), NULL, "one rank");
    for (int n = 2; n <= 3; n++) {
        struct trial many = one;
        run(&many, data_ranks(n), NULL, "squared weights");
        compare(&one.trace[0], &many, data_ranks(n), "squared weights");
        traces_fini(many.trace, n);
    }
    traces_fini(one.trace, 1);
    trial_fini(&one);
}

/* Other ranks' masters are old: what changes all weights at once has to gather copies again. */
TEST(perturbed_masters_reach_all_ranks)
{
    static const struct rp_degrees by[] = {{2, 1, 1}, {3, 1, 1}, {1, 1, 2}, {2, 1, 2}};
    struct rp_recipe r = recipe_of(GPT, &contracts[1], 1);
    r.seed_perturbation = 99;
    struct trial one = trial_of(GPT, r, 6);
    run(&one, data_ranks(1), NULL, "one rank");
    for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
        struct trial many = one;
        run(&many, by[i], NULL, "perturbed");
        compare(&one.trace[0], &many, by[i], "perturbed");
        traces_fini(many.trace, by[i].data * by[i].tensor * by[i].pipeline);
    }
    traces_fini(one.trace, 1);
    trial_fini(&one);
}

/* A file has the masters of all ranks, either continues the other, and so do other numbers of ranks. */
TEST(checkpoints_have_the_masters_of_all_ranks)
{
    struct rp_err err;
    RP_FREE char *first = rp_strdup(scratch("one.safetensors")), *second = rp_strdup(scratch("three.safetensors"));
    RP_BUF a = {0};
    RP_BUF b = {0};
    struct trial one = trial_of(BERT, recipe_of(BERT, &contracts[1], 1), 4), three = one;
    one.save = first;
    three.save = second;
    run(&one, data_ranks(1), NULL, "one rank");
    run(&three, data_ranks(3), NULL, "three ranks");
    CHECK(rp_read_file(&a, first, 1 << 26, &err) == 0 && rp_read_file(&b, second, 1 << 26, &err) == 0, "%s", err.msg);
    CHECK(a.size == b.size && !memcmp(a.data, b.data, a.size), "the files differ");
    traces_fini(one.trace, 1);
    traces_fini(three.trace, 3);
    one.save = three.save = NULL;
    one.recipe.run_init = second;
    three.recipe.run_init = first;
    run(&one, data_ranks(1), NULL, "one rank, continued");
    run(&three, data_ranks(3), NULL, "three ranks, continued");
    compare(&one.trace[0], &three, data_ranks(3), "continued");
    traces_fini(three.trace, 3);
    run(&three, data_ranks(2), NULL, "two ranks, continued");
    compare(&one.trace[0], &three, data_ranks(2), "two ranks, continued");
    traces_fini(three.trace, 2);
    traces_fini(one.trace, 1);
    one.recipe.run_init = NULL; /* not the recipe's own */
    trial_fini(&one);
}

/* ---- planted faults ---- */

/* What goes wrong on rank 1 of three, in every step. */
enum fault { NONE, KEPT, SWAPPED, SHIFTED, UNROUNDED, FAULTS };
static const char *const fault_names[FAULTS] = {"none", "copies of another rank are not replaced",
                                                "shares of two ranks are swapped", "a share is one number late",
                                                "the own share is not rounded again"};
static enum fault planted;
static const struct trace *faulty; /* of rank 1 */

/* Whether it is a copy, of the rank that trains. */
static int is_copy(const struct rp_train *t, const void *x)
{
    const char *from = (const char *)t->rounded;
    return (const char *)x >= from &&
           (const char *)x < from + t->state.weights->bytes / sizeof(float) * t->net->dev->stored_bytes;
}

static void swap_bytes(unsigned char *a, unsigned char *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned char x = a[i];
        a[i] = b[i];
        b[i] = x;
    }
}

static int exchange_badly(struct rp_comm *c, enum rp_group g, const struct rp_transfer *t, int n, struct rp_err *err)
{
    const struct rp_train *train = faulty->train;
    RP_FREE struct rp_transfer *own = rp_alloc(((size_t)n + 1) * sizeof *own);
    const struct rp_transfer *got[3] = {NULL}; /* the first copies from each rank */
    RP_BUF kept = {0};
    memcpy(own, t, (size_t)n * sizeof *own);
    for (int i = n - 1; i >= 0; i--)
        if (train && !t[i].send && is_copy(train, t[i].data))
            got[t[i].peer] = &t[i];
    if (got[0] && planted == KEPT) {
        rp_buf_add(&kept, got[0]->data, got[0]->bytes);
        own[got[0] - t].data = kept.data;
    }
    if (ranks_exchange(c, g, own, n, err) < 0)
        return -1;
    if (got[0] && got[2] && planted == SWAPPED)
        swap_bytes(got[0]->data, got[2]->data, got[0]->bytes < got[2]->bytes ? got[0]->bytes : got[2]->bytes);
    if (got[0] && planted == SHIFTED)
        memmove((char *)got[0]->data + 2, got[0]->data, got[0]->bytes - 2);
    return 0;
}

static struct rp_ops bad_ops;
static const struct rp_ops *good_ops;

static void round_once(struct rp_dev *dev, rp_stored *dst, const float *src, const rp_stored *add, size_t n)
{
    if (!faulty->train || !is_copy(faulty->train, dst))
        good_ops->round_stored(dev, dst, src, add, n);
}

static void plant_in_device(struct rp_dev *dev, int rank)
{
    if (rank != 1 || planted != UNROUNDED)
        return;
    good_ops = dev->op;
    bad_ops = *dev->op;
    bad_ops.round_stored = round_once;
    dev->op = &bad_ops;
}

static int run_with_fault(struct rp_comm *c, void *arg, struct rp_err *err)
{
    static const struct rp_comm_ops bad = {.exchange = exchange_badly, .close = ranks_close};
    if (c->rank[RP_GROUP_WORLD] == 1)
        c->op = &bad;
    return run_rank(c, arg, err);
}

TEST(a_copy_that_is_not_what_its_owner_rounded_is_noticed)
{
    struct trial one = trial_of(BERT, recipe_of(BERT, &contracts[1], 1), 3);
    run(&one, data_ranks(1), NULL, "one rank");
    for (int narrow = 0; narrow < 2; narrow++)
        for (planted = NONE; planted < FAULTS; planted++) {
            struct rp_err err = {0};
            struct trial many = one;
            memset(many.trace, 0, sizeof many.trace);
            many.device = &wide_and_narrow[narrow];
            many.devices = 1;
            many.opened = plant_in_device;
            faulty = &many.trace[1];
            CHECK(ranks_run(data_ranks(3), NULL, run_with_fault, &many, &err) == 0, "%s: %s", fault_names[planted],
                  err.msg);
            CHECK((many.trace[0].loss[1] != one.trace[0].loss[1]) == (planted != NONE),
                  "%s, %s: the losses of the next step are %a and %a", fault_names[planted],
                  wide_and_narrow[narrow].isa, (double)many.trace[0].loss[1], (double)one.trace[0].loss[1]);
            CHECK(many.trace[0].loss[0] == one.trace[0].loss[0], "%s: the first loss", fault_names[planted]);
            traces_fini(many.trace, 3);
        }
    traces_fini(one.trace, 1);
    trial_fini(&one);
}

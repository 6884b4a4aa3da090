/* Ranks that divide a model, as threads: tensor-parallel ranks and pipeline stages compute the bits of one rank. */
#include "tests/unit/scratch.h"
#include "tests/unit/trials.h"

#include <math.h>

/* Sizes that divide 2, 3, 4, 6 and 12 parts, with row counts that do not. */
static struct rp_recipe divided_gpt(int degree, int layers)
{
    struct rp_recipe r = small_gpt();
    r.parallel_tensor = degree;
    r.model_num_hidden_layers = layers;
    r.model_num_attention_heads = 12;
    r.model_hidden_size = 12 * 8;
    r.model_intermediate_size = 132;
    r.model_hidden_dropout_prob = r.model_attention_probs_dropout_prob = r.model_embedding_dropout_prob = 0.2;
    return r;
}

/* ---- one micro-batch, on one rank and on many ---- */

struct single {
    const struct rp_recipe *recipe;
    const struct fixture_data *data;
    const struct rp_train *train; /* one rank, after backward */
    struct rp_losses losses;
    int64_t micro, step;
    const char *isa; /* NULL: the definitions */
    int wrong;       /* rank 0 takes the sums of rank 1 for those of rank 2 */
};

struct piece {
    struct rp_net *net;
    struct rp_dev *dev;
    struct rp_trained state;
    float *g;
};

static void *piece_block(struct piece *p, enum rp_class c, size_t bytes)
{
    struct rp_err err = {0};
    void *x = p->dev->backend->block(p->dev, c, bytes, &err);
    CHECK(x, "%s", err.msg);
    return x;
}

/* The part of the whole's weights. */
static void piece_open(struct piece *p, const struct single *s, struct rp_comm *c)
{
    const struct rp_device_opts o = {.isa = s->isa, .threads = 1};
    struct rp_err err = {0};
    *p = (struct piece){.net = rp_net_new_on(s->recipe, s->recipe->train_batch_size, c, sizeof(float))};
    struct rp_net *m = p->net;
    struct rp_tensors *list = m->tensors;
    p->state.optimizer = rp_optimizer_of(s->recipe);
    rp_train_declare(m, &p->state, 0, NULL);
    p->dev =
        s->isa ? rp_backend_open(&rp_backend_cpu, &o, m->use, m->uses, &err) : fixture_device("reference", 1, 1, 1);
    CHECK(p->dev, "%s", err.msg);
    m->dev = p->dev;
    float *w = piece_block(p, RP_CLASS_PARAMETERS, list[RP_WEIGHT].bytes);
    p->g = m->g = piece_block(p, RP_CLASS_GRADIENTS, rp_net_gradient_floats(m) * sizeof *p->g);
    rp_net_bind_weights(m, w, NULL, (rp_stored *)(void *)w);
    rp_tensors_bind(&list[RP_ACTIVATION], piece_block(p, RP_CLASS_ACTIVATIONS, list[RP_ACTIVATION].bytes), 0);
    rp_tensors_bind(&list[RP_SCRATCH], piece_block(p, RP_CLASS_SCRATCH, list[RP_SCRATCH].bytes), 0);
    rp_tensors_bind(&list[RP_INPUT], piece_block(p, RP_CLASS_INPUT, list[RP_INPUT].bytes), 0);
    CHECK(list[RP_WEIGHT].n == s->train->state.weights->n, "the same list on every rank");
    for (int i = 0; i < list[RP_WEIGHT].n; i++) {
        const struct rp_tensor *t = &list[RP_WEIGHT].t[i], *whole = &s->train->state.weights->t[i];
        CHECK(t->whole == whole->count && t->count * (size_t)t->ranks == (t->count ? whole->count : 0), "%s", t->name);
        for (size_t j = 0; j < t->count; j++)
            rp_tensor_in(w, t)[j] =
                rp_tensor_in(s->train->state.w, whole)[rp_tensor_whole_element(t, rp_net_rank(m), j)];
    }
}

static void piece_close(struct piece *p)
{
    rp_net_free(p->net);
    fixture_close(p->dev);
}

static int pass(struct rp_net *m, int send, int by, struct rp_err *err)
{
    const int stage = m->comm->rank[RP_GROUP_PIPELINE], peer = stage + by;
    if (peer >= 0 && peer < m->comm->size[RP_GROUP_PIPELINE])
        rp_net_exchange(m, RP_GROUP_PIPELINE, &(struct rp_transfer){peer, send, *m->boundary,
                                                                    m->boundary_elements * m->dev->stored_bytes}, 1);
    return rp_net_alive(m, err);
}

static int piece_run(struct piece *p, const struct single *s, float *loss, struct rp_err *err)
{
    struct rp_net *m = p->net;
    const int64_t tokens = m->batch * (s->recipe->task_seq_length + 1);
    void *column[] = {(int32_t *)s->data->column[FX_TOKENS] + s->micro * tokens};
    m->step = s->step;
    m->micro = s->micro;
    if (m->model->prepare(m, m->input, column, err) < 0 || pass(m, 0, -1, err) < 0 ||
        m->model->forward(m, m->input, err) < 0 || pass(m, 1, 1, err) < 0)
        return -1;
    *loss = m->loss ? m->loss[0] : 0;
    return pass(m, 0, 1, err) < 0 || m->model->backward(m, m->input, err) < 0 || pass(m, 1, -1, err) < 0 ? -1 : 0;
}

/* The gradient that one rank has for weight i, used at both ends of the model: lookups at the first, logits at the
 * last. */
static const float *whole_gradient(const struct single *s, int i, int first_of_two)
{
    const struct rp_net *m = s->train->net;
    return first_of_two ? rp_net_second_grad(m, 0) : rp_tensor_in(m->g, &m->tensors[RP_WEIGHT].t[i]);
}

static void compare_gradient(const struct single *s, const struct piece *p)
{
    const struct rp_comm *c = p->net->comm;
    const struct rp_tensors *list = &p->net->tensors[RP_WEIGHT];
    const int stages = c->size[RP_GROUP_PIPELINE], stage = c->rank[RP_GROUP_PIPELINE];
    for (int i = 0; i < list->n; i++) {
        const struct rp_tensor *t = &list->t[i];
        const int twice = t->stage_again && stages > 1;
        const float *whole = whole_gradient(s, i, twice && stage == 0);
        size_t bad = 0;
        for (size_t j = 0; j < t->count; j++)
            bad += memcmp(&rp_tensor_in(p->g, t)[j], &whole[rp_tensor_whole_element(t, rp_net_rank(p->net), j)],
                          sizeof *whole) != 0;
        CHECK(!bad, "%s of rank %d: %zu of %zu elements differ", t->name, c->rank[RP_GROUP_WORLD], bad, t->count);
        if (t->stage_again && stages == 1) {
            const struct rp_tensor *second = &p->net->tensors[RP_SECOND_GRADIENT].t[0];
            for (size_t j = 0; j < second->count; j++)
                bad += memcmp(&rp_net_second_grad(p->net, 0)[j],
                              &whole_gradient(s, i, 1)[rp_tensor_whole_element(t, rp_net_rank(p->net), j)],
                              sizeof *whole) != 0;
            CHECK(second->count == t->count && !bad, "lookups of rank %d: %zu elements differ", c->rank[RP_GROUP_WORLD],
                  bad);
        }
    }
}

/* The exchange of sums of the first layer's attention: rank 0 of four adds (0 + 2) + (1 + 3), for its rows. */
static const struct rp_comm_ops *right;
static _Thread_local int exchanges;
static int exchange_in_wrong_order(struct rp_comm *c, enum rp_group g, const struct rp_transfer *t, int n,
                                   struct rp_err *err)
{
    struct rp_transfer other[64];
    if (exchanges++ != 1 || c->rank[RP_GROUP_TENSOR] != 0)
        return right->exchange(c, g, t, n, err);
    memcpy(other, t, (size_t)n * sizeof *t);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++)
            if (!t[i].send && !t[k].send && t[i].peer == 1 && t[k].peer == 2) {
                CHECK(t[i].bytes == t[k].bytes, "nodes of ranks 1 and 2");
                other[i].data = t[k].data;
                other[k].data = t[i].data;
            }
    return right->exchange(c, g, other, n, err);
}

static int rank_of_one_micro_batch(struct rp_comm *c, void *arg, struct rp_err *err)
{
    static const struct rp_comm_ops wrong = {.exchange = exchange_in_wrong_order, .close = ranks_close};
    const struct single *s = arg;
    const int is_last = c->rank[RP_GROUP_PIPELINE] + 1 == c->size[RP_GROUP_PIPELINE];
    struct piece p;
    float loss;
    right = s->wrong ? c->op : NULL;
    c->op = s->wrong ? &wrong : c->op;
    piece_open(&p, s, c);
    int failed = piece_run(&p, s, &loss, err);
    if (!failed && !s->wrong)
        compare_gradient(s, &p);
    if (!failed && is_last)
        CHECK(s->wrong == (memcmp(&loss, &s->losses.loss, sizeof loss) != 0) && fabsf(loss - s->losses.loss) < 1e-4f,
              "loss %a, one rank has %a", (double)loss, (double)s->losses.loss);
    piece_close(&p);
    return failed;
}

/* Forward and backward of micro-batch 1 of step 3, on one rank and in this layout. */
static void compare_one(const struct rp_recipe *r, struct rp_degrees ranks, const char *isa, int wrong)
{
    struct rp_err err = {0};
    struct fixture f;
    struct fixture_data data = samples_new(r, 7);
    CHECK(rp_net_check_ranks(r, ranks, &err) == 0, "%s", err.msg);
    CHECK(fixture_open(&f, r, "reference", 1, 0, &data, &err) == 0, "%s", err.msg);
    struct single s = {.recipe = r, .data = &data, .train = f.t, .micro = 1, .step = 3, .isa = isa, .wrong = wrong};
    int failed = rp_train_forward(f.t, 1, 3, f.t->gradient[0], &s.losses, &err) < 0 ||
                 rp_train_backward(f.t, 1, 3, f.t->gradient[0], &err) < 0;
    CHECK(!failed && ranks_run(ranks, NULL, rank_of_one_micro_batch, &s, &err) == 0, "%d x %d ranks: %s", ranks.tensor,
          ranks.pipeline, err.msg);
    fixture_fini(&f);
    samples_free(&data);
}

TEST(tensor_ranks_compute_the_bits_of_one)
{
    static const struct {
        int degree, ranks, recompute, act;
    } cases[] = {
        {2, 2, RP_RECOMPUTE_none, RP_ACTIVATION_gelu_tanh}, {4, 4, RP_RECOMPUTE_selective, RP_ACTIVATION_gelu},
        {4, 2, RP_RECOMPUTE_full, RP_ACTIVATION_gelu_tanh}, {6, 2, RP_RECOMPUTE_none, RP_ACTIVATION_gelu_tanh},
        {12, 4, RP_RECOMPUTE_none, RP_ACTIVATION_gelu},     {3, 3, RP_RECOMPUTE_none, RP_ACTIVATION_gelu_tanh}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_recipe r = divided_gpt(cases[i].degree, 2);
        r.train_accumulation_steps = 2;
        r.train_recompute = cases[i].recompute;
        r.model_hidden_act = cases[i].act;
        r.train_batch_size = 1 + (int64_t)i % 3;
        compare_one(&r, (struct rp_degrees){1, cases[i].ranks, 1}, i % 2 ? "scalar" : NULL, 0);
        rp_recipe_fini(&r);
    }
}

TEST(another_order_of_partial_sums_is_found)
{
    struct rp_recipe r = divided_gpt(4, 1);
    r.train_accumulation_steps = 2;
    compare_one(&r, (struct rp_degrees){1, 4, 1}, NULL, 1);
    rp_recipe_fini(&r);
}

TEST(stages_compute_the_bits_of_one)
{
    static const struct {
        int degree, layers, ranks, stages, recompute;
        double dropout;
    } cases[] = {{1, 2, 1, 2, RP_RECOMPUTE_none, 0.2},     {1, 3, 1, 3, RP_RECOMPUTE_selective, 0.2},
                 {1, 4, 1, 4, RP_RECOMPUTE_full, 0},       {1, 3, 1, 2, RP_RECOMPUTE_full, 0.2},
                 {2, 4, 2, 3, RP_RECOMPUTE_none, 0},       {4, 3, 2, 2, RP_RECOMPUTE_full, 0.2},
                 {2, 2, 2, 2, RP_RECOMPUTE_selective, 0.2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_recipe r = divided_gpt(cases[i].degree, cases[i].layers);
        r.train_accumulation_steps = 2;
        r.train_recompute = cases[i].recompute;
        r.model_hidden_dropout_prob = cases[i].dropout;
        compare_one(&r, (struct rp_degrees){1, cases[i].ranks, cases[i].stages}, i % 2 ? "scalar" : NULL, 0);
        rp_recipe_fini(&r);
    }
}

/* More rows than a block of logits, end-of-document tokens that reset positions and attention, one row fewer than
 * ranks. */
TEST(blocks_and_documents)
{
    struct rp_recipe r = divided_gpt(4, 1);
    r.train_accumulation_steps = 2;
    r.model_max_position_embeddings = 64;
    r.task_seq_length = 61;
    r.train_batch_size = 9;
    r.task_eod_token = 3;
    r.task_reset_position_ids = r.task_reset_attention_mask = r.task_eod_mask_loss = 1;
    compare_one(&r, (struct rp_degrees){1, 4, 1}, "scalar", 0);
    r.task_seq_length = 3;
    r.train_batch_size = 1;
    compare_one(&r, (struct rp_degrees){1, 4, 1}, "scalar", 0);
    rp_recipe_fini(&r);
}

/* ---- trainings ---- */

/* Tensors of several chunks, so that shares end within them, and of columns. */
static struct rp_recipe wide_gpt(int degree, int layers)
{
    struct rp_recipe r = small_gpt();
    r.run_overlap_kib = 1; /* first stages overlap, in buckets of a layer */
    r.parallel_tensor = degree;
    r.model_num_hidden_layers = layers;
    r.model_num_attention_heads = 4;
    r.model_hidden_size = 32;
    r.model_vocab_size = 701;
    r.model_padded_vocab_size = 704;
    r.model_intermediate_size = 400;
    r.model_hidden_dropout_prob = r.model_attention_probs_dropout_prob = r.model_embedding_dropout_prob = 0.1f;
    r.optimizer_clip_norm = 0.5f;
    return r;
}

static void check_layouts(struct rp_recipe recipe, int64_t micros, const struct rp_degrees *by, int n, const char *what)
{
    struct rp_err err;
    struct trial one = trial_new(recipe, micros);
    CHECK(trial_run(&one, (struct rp_degrees){1, 1, 1}, NULL, &err) == 0, "%s: %s", what, err.msg);
    for (int i = 0; i < n; i++) {
        struct trial many = one;
        char text[80];
        snprintf(text, sizeof text, "%s, %d x %d x %d", what, by[i].data, by[i].tensor, by[i].pipeline);
        memset(many.trace, 0, sizeof many.trace);
        CHECK(trial_run(&many, by[i], NULL, &err) == 0, "%s: %s", text, err.msg);
        compare(&one.trace[0], &many, by[i], text);
        for (int k = 0; k < by[i].data * by[i].tensor * by[i].pipeline; k++) {
            struct rp_comm place = {.lost = -1};
            rp_comm_set_coords(&place, k, by[i]);
            const int overlaps = by[i].data > 1 && place.rank[RP_GROUP_PIPELINE] == 0;
            CHECK(many.trace[k].overlaps == overlaps, "%s: rank %d %s during its backward pass", text, k,
                  overlaps ? "does not exchange" : "exchanges");
        }
        traces_fini(many.trace, by[i].data * by[i].tensor * by[i].pipeline);
    }
    traces_fini(one.trace, 1);
    trial_fini(&one);
}
#define CHECK_LAYOUTS(recipe, micros, what, ...)                                                                       \
    do {                                                                                                               \
        static const struct rp_degrees by[] = {__VA_ARGS__};                                                           \
        check_layouts(recipe, micros, by, sizeof by / sizeof *by, what);                                               \
    } while (0)

TEST(training_on_tensor_ranks)
{
    struct rp_recipe r = wide_gpt(4, 2);
    r.train_recompute = RP_RECOMPUTE_selective;
    CHECK_LAYOUTS(wide_gpt(2, 2), 1, "degree 2", {1, 2, 1});
    CHECK_LAYOUTS(r, 3, "degree 4", {1, 2, 1}, {1, 4, 1}, {3, 2, 1}, {2, 4, 1});
}

TEST(training_in_stages)
{
    struct rp_recipe full = wide_gpt(1, 4), selective = wide_gpt(1, 3);
    full.train_recompute = RP_RECOMPUTE_full;
    selective.train_recompute = RP_RECOMPUTE_selective;
    CHECK_LAYOUTS(wide_gpt(1, 2), 1, "one micro-batch", {1, 1, 2});
    CHECK_LAYOUTS(selective, 3, "three micro-batches", {1, 1, 2}, {1, 1, 3}, {3, 1, 3}, {2, 1, 2});
    CHECK_LAYOUTS(full, 8, "eight micro-batches", {1, 1, 4}, {1, 1, 3}, {2, 1, 4}, {3, 1, 2});
}

TEST(training_on_all_kinds_of_ranks)
{
    struct rp_recipe r = wide_gpt(4, 3), lamb = wide_gpt(2, 2);
    lamb.optimizer_name = RP_OPTIMIZER_lamb;
    CHECK_LAYOUTS(r, 8, "all kinds", {2, 2, 2}, {1, 4, 3}, {3, 2, 3});
    CHECK_LAYOUTS(lamb, 3, "LAMB", {2, 2, 2});
}

/* Embeddings, rows, columns and copies of a tied embedding: an element is moved by its number in the whole tensor. */
TEST(perturbations_do_not_depend_on_the_layout)
{
    struct rp_recipe r = wide_gpt(4, 3), lamb = wide_gpt(2, 2);
    lamb.optimizer_name = RP_OPTIMIZER_lamb;
    r.seed_perturbation = lamb.seed_perturbation = 0x1234567890abcll;
    CHECK_LAYOUTS(r, 8, "perturbed", {2, 2, 2}, {1, 4, 3}, {3, 2, 3});
    CHECK_LAYOUTS(lamb, 3, "perturbed, LAMB", {2, 2, 2});
}

TEST(replicated_optimizer_state_in_layouts)
{
    struct rp_recipe r = wide_gpt(2, 2), lamb = wide_gpt(1, 2);
    r.parallel_optimizer_state = lamb.parallel_optimizer_state = RP_OPTIMIZER_STATE_replicated;
    lamb.optimizer_name = RP_OPTIMIZER_lamb;
    CHECK_LAYOUTS(r, 3, "replicated", {2, 2, 1}, {2, 1, 2});
    CHECK_LAYOUTS(lamb, 3, "LAMB, replicated", {3, 1, 2});
}

/* The stage that has the tensor reports it, and not the last one, where the loss becomes NaN. */
static int poison_first_stage(struct rp_comm *c, void *arg, struct rp_err *err)
{
    struct trial *trial = arg;
    struct rp_plan plan;
    struct rp_dev *dev = fixture_device("reference", 1, 0, 0);
    struct rp_train *t = NULL;
    struct rp_step_result s;
    int failed = rp_train_size(&plan, &trial->recipe, c, dev->backend, &(struct rp_device_opts){0}, err) < 0;
    if (!failed)
        t = rp_train_open(
            &(struct rp_train_opts){
                .recipe = &trial->recipe, .plan = &plan, .dev = dev, .comm = c, .format = trial->format},
            err);
    const int at = t ? rp_tensors_find(t->state.weights, trial->wrong) : -1;
    if (at >= 0 && c->rank[RP_GROUP_PIPELINE] == 0)
        rp_tensor_in(t->state.w, &t->state.weights->t[at])[5] = NAN;
    failed = !t || rp_train_load(t, 0, err) < 0 || rp_train_step(t, 0, &s, err) < 0;
    rp_train_close(t);
    fixture_close(dev);
    return failed ? -1 : 0;
}

TEST(the_stage_that_has_the_tensor_names_it)
{
    struct rp_err err = {0};
    struct trial t = trial_new(wide_gpt(1, 2), 3);
    t.wrong = "transformer.h.0.mlp.c_fc.weight";
    fixture_data_now = t.data;
    CHECK(ranks_run((struct rp_degrees){1, 1, 2}, NULL, poison_first_stage, &t, &err) < 0 && err.code == RP_MISMATCH &&
              strstr(err.msg, t.wrong) && strstr(err.msg, "stage 0") && strstr(err.msg, "element 5"),
          "%s", err.msg);
    trial_fini(&t);
}

static const char *file_of(const struct rp_recipe *r, struct rp_degrees by, const char *init, const char *name,
                           struct trial *trial)
{
    struct rp_err err;
    *trial = trial_new(*r, 4);
    trial->save = name;
    trial->recipe.run_init = (char *)(uintptr_t)init;
    CHECK(trial_run(trial, by, NULL, &err) == 0, "%s: %s", name, err.msg);
    trial->recipe.run_init = NULL;
    samples_free(&trial->data);
    return name;
}

/* Saved by one layout and continued by another: the bytes of one rank. */
TEST(checkpoints_across_layouts)
{
    static const struct rp_degrees one = {1, 1, 1}, eight = {2, 2, 2}, four = {1, 4, 1}, six = {2, 1, 3};
    struct rp_recipe r = wide_gpt(4, 3);
    static struct trial a, b, c, d;
    RP_FREE char *of_one = rp_strdup(scratch("one.safetensors")), *of_eight = rp_strdup(scratch("eight.safetensors"));
    RP_FREE char *then_four = rp_strdup(scratch("four.safetensors")), *then_six = rp_strdup(scratch("six.safetensors"));
    RP_BUF x = {0}, y = {0};
    struct rp_err err = {0};
    file_of(&r, one, NULL, of_one, &a);
    file_of(&r, eight, NULL, of_eight, &b);
    CHECK(rp_read_file(&x, of_one, 1 << 26, &err) == 0 && rp_read_file(&y, of_eight, 1 << 26, &err) == 0, "%s",
          err.msg);
    CHECK(x.size == y.size && !memcmp(x.data, y.data, x.size), "the files of one rank and of eight differ");
    traces_fini(a.trace, 1);
    file_of(&r, one, of_eight, scratch("then_one.safetensors"), &a);
    file_of(&r, four, of_one, then_four, &c);
    file_of(&r, six, of_eight, then_six, &d);
    compare(&a.trace[0], &c, four, "four continue one");
    compare(&a.trace[0], &d, six, "six continue eight");
    traces_fini(a.trace, 1);
    traces_fini(b.trace, 8);
    traces_fini(c.trace, 4);
    traces_fini(d.trace, 6);
    rp_recipe_fini(&r);
}

TEST(stages_are_even)
{
    for (int layers = 1; layers < 40; layers++)
        for (int stages = 1; stages <= layers; stages++)
            for (int i = 0, first = rp_stage_begin(layers, stages, 1); i < stages; i++) {
                int n = rp_stage_begin(layers, stages, i + 1) - rp_stage_begin(layers, stages, i);
                CHECK(n >= 1 && n <= first && n >= first - 1 &&
                          (i + 1 < stages || rp_stage_begin(layers, stages, i + 1) == layers),
                      "%d layers, stage %d of %d has %d", layers, i, stages, n);
            }
}

TEST(layouts_that_do_not_fit)
{
    struct rp_recipe gpt = divided_gpt(4, 2), bert = small_recipe();
    struct rp_err err = {0};
    CHECK(rp_net_check_ranks(&gpt, (struct rp_degrees){1, 3, 1}, &err) < 0 && err.code == RP_USAGE,
          "3 ranks of degree 4");
    gpt.model_num_attention_heads = 12; /* --set parallel.tensor=3 would go through if all three can be divided by it */
    gpt.model_intermediate_size = gpt.model_padded_vocab_size = 96;
    CHECK(rp_net_check_ranks(&gpt, (struct rp_degrees){1, 3, 1}, &err) < 0 &&
              strstr(err.msg, "choose one of 1, 2, 4, or --set parallel.tensor=3"),
          "%s", err.msg);
    gpt.model_intermediate_size = 64;
    CHECK(rp_net_check_ranks(&gpt, (struct rp_degrees){1, 3, 1}, &err) < 0 &&
              strstr(err.msg, "choose one of 1, 2, 4") && !strstr(err.msg, "--set"),
          "%s", err.msg);
    CHECK(rp_net_check_ranks(&gpt, (struct rp_degrees){1, 8, 1}, &err) < 0 && err.code == RP_USAGE,
          "8 ranks of degree 4");
    CHECK(rp_net_check_ranks(&gpt, (struct rp_degrees){1, 4, 3}, &err) < 0 && err.code == RP_USAGE,
          "3 stages of 2 layers");
    CHECK(rp_net_check_ranks(&bert, (struct rp_degrees){1, 1, 2}, &err) < 0 && err.code == RP_USAGE, "stages of BERT");
    CHECK(rp_net_check_ranks(&bert, (struct rp_degrees){1, 2, 1}, &err) < 0 && err.code == RP_USAGE,
          "tensor ranks of BERT");
    rp_recipe_fini(&gpt);
    rp_recipe_fini(&bert);
}

/* ---- sizes ---- */

/* Every element of a tensor is in one part, where a run of it is contiguous in both. */
TEST(parts_of_a_tensor_are_all_of_it)
{
    static const struct rp_tensor kinds[] = {{.name = "rows", .dim = {12, 5}, .shard = 1},
                                             {.name = "columns", .dim = {5, 12}, .shard = 2},
                                             {.name = "columns of three", .dim = {5, 36}, .shard = 2, .pieces = 3},
                                             {.name = "vector of three", .dim = {36}, .shard = 1, .pieces = 3},
                                             {.name = "whole", .dim = {5, 7}}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int ranks = 1; ranks <= 4; ranks++) {
            int seen[256] = {0}, bad = 0;
            for (int r = 0; r < ranks; r++) {
                struct rp_tensors l = {.ranks = ranks, .rank = r};
                rp_tensors_add(&l, &kinds[k]);
                const struct rp_tensor *t = &l.t[0];
                const size_t run = rp_tensor_whole_run(t);
                for (size_t j = 0; j < t->count; j++) {
                    const size_t at = rp_tensor_whole_element(t, r, j);
                    bad += at >= t->whole || (j % run && at != rp_tensor_whole_element(t, r, j - 1) + 1);
                    seen[at % 256]++;
                }
                bad += t->count * (size_t)t->ranks != t->whole || rp_tensor_whole_dim(t, 0) != kinds[k].dim[0];
                rp_tensors_fini(&l);
            }
            for (size_t i = 0; i < 256; i++)
                bad += seen[i] != (i < (k < 2 ? 60 : k == 2 ? 180 : k == 3 ? 36 : 35) ? kinds[k].shard ? 1 : ranks : 0);
            CHECK(!bad, "%s over %d ranks", kinds[k].name, ranks);
        }
}

static struct rp_plan plan_on(const struct rp_recipe *r, struct rp_degrees by, int rank)
{
    struct rp_err err = {0};
    struct rp_comm c = {.lost = -1};
    struct rp_plan plan = {0};
    rp_comm_set_coords(&c, rank, by);
    CHECK(rp_train_size(&plan, r, &c, &reference_backend, &(struct rp_device_opts){0}, &err) == 0, "%s", err.msg);
    return plan;
}

/* Parts add up to the whole; only the embedding is there twice, and a first stage keeps more sets of activations than a
 * last one. */
TEST(plans_of_parts)
{
    struct rp_recipe r = wide_gpt(4, 4);
    const struct rp_plan one = plan_on(&r, (struct rp_degrees){1, 1, 1}, 0);
    const uint64_t embedding = 704 * 32 * sizeof(float);
    r.train_accumulation_steps = 8;
    uint64_t weights = 0, slots = 0;
    for (int i = 0; i < 4; i++) {
        const struct rp_plan p = plan_on(&r, (struct rp_degrees){1, 1, 4}, i);
        weights += p.bytes[RP_CLASS_PARAMETERS];
        slots += p.bytes[RP_CLASS_OPTIMIZER];
        CHECK(p.parameters == one.parameters, "the model is the same");
    }
    CHECK(weights == one.bytes[RP_CLASS_PARAMETERS] + embedding && slots == one.bytes[RP_CLASS_OPTIMIZER],
          "weights %llu, slots %llu", (unsigned long long)weights, (unsigned long long)slots);
    const struct rp_plan quarter = plan_on(&r, (struct rp_degrees){1, 4, 1}, 2);
    CHECK(quarter.bytes[RP_CLASS_PARAMETERS] < one.bytes[RP_CLASS_PARAMETERS] / 3, "a quarter of most tensors");
    const uint64_t few = plan_on(&r, (struct rp_degrees){1, 1, 2}, 0).bytes[RP_CLASS_ACTIVATIONS];
    r.train_accumulation_steps = 1;
    CHECK(few == 2 * plan_on(&r, (struct rp_degrees){1, 1, 2}, 0).bytes[RP_CLASS_ACTIVATIONS],
          "two sets, of one micro-batch one");
    rp_recipe_fini(&r);
}

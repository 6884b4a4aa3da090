/* States that a prover hands over: those of a training are within its reach and cost what an untrained one costs; cheap
 * ones are refused, or seen to be cheap. */
#include "tests/unit/noise_images.h"
#include "tests/unit/scratch.h"
#include "tests/unit/tap.h"

#include "train/products.h"
#include "train/safetensors.h"
#include "verify/challenge/reach.h"
#include "verify/levels.h"

#include <math.h>

#define STEPS 6
#define EVERY 2 /* steps between roots */

struct training {
    struct rp_recipe recipe;
    const struct rp_data_format *format;
    struct fixture_data data;
    struct rp_plan plan;
    struct rp_dev *dev;
    struct rp_train *t;
    struct rp_step_record record[STEPS];
};

/* From the recipe's seeds, or from a file. */
static int open_training(struct training *x, const char *init, struct rp_err *err)
{
    struct rp_device_opts o = {.isa = "avx2", .threads = 1};
    *err = (struct rp_err){0};
    x->recipe.run_init = (char *)(uintptr_t)init;
    x->dev = fixture_device("avx2", 1, (int)x->recipe.task_seq_length, 64);
    x->dev = x->dev ? x->dev : fixture_device("reference", 1, 0, 0);
    fixture_data_now = x->data;
    x->t =
        rp_train_size(&x->plan, &x->recipe, NULL, x->dev->backend, &o, err) < 0
            ? NULL
            : rp_train_open(
                  &(struct rp_train_opts){.recipe = &x->recipe, .plan = &x->plan, .dev = x->dev, .format = x->format},
                  err);
    x->recipe.run_init = NULL;
    return x->t ? 0 : -1;
}

static void close_training(struct training *x)
{
    rp_train_close(x->t);
    fixture_close(x->dev);
    x->t = NULL;
    x->dev = NULL;
}

/* Trains as a worker does, and saves the state after the last step. */
static void train(struct training *x, const char *save)
{
    struct rp_err err;
    CHECK(open_training(x, NULL, &err) == 0, "%s", err.msg);
    for (int step = 0; step < STEPS && x->t; step++) {
        struct rp_step_result s = {0};
        CHECK((step % EVERY || rp_train_perturb(x->t, &err) == 0) && rp_train_load(x->t, step, &err) == 0 &&
                  rp_train_step(x->t, step, &s, &err) == 0, "step %d: %s", step, err.msg);
        x->record[step] = (struct rp_step_record){.step = step, .grad_norm = s.grad_norm};
    }
    CHECK(rp_train_save(x->t, save, &x->recipe, &err) == 0, "%s", err.msg);
    close_training(x);
}

/* Products that a step from there needs, of all. -1: its loss or norm is not finite. */
static double count_needed(struct training *x, const char *init, int perturbs)
{
    struct rp_err err;
    struct rp_step_result s;
    CHECK(open_training(x, init, &err) == 0, "%s: %s", init ? init : "untrained", err.msg);
    CHECK((!perturbs || rp_train_perturb(x->t, &err) == 0) && rp_train_load(x->t, 0, &err) == 0, "%s", err.msg);
    rp_products_begin(x->dev);
    const int failed = rp_train_step(x->t, 0, &s, &err) < 0;
    const struct rp_products p = rp_products_end(x->dev);
    CHECK(!failed || err.code == RP_MISMATCH, "%s", err.msg);
    close_training(x);
    return failed ? -1 : rp_products_needed(&p);
}

static struct rp_reach reach(struct training *x, const char *path)
{
    struct rp_reach out;
    struct rp_err err;
    const struct rp_records rs = {.r = x->record, .n = STEPS};
    CHECK(rp_reach_check(&out, path, &x->recipe, &rs, STEPS, &err) == 0, "%s", err.msg);
    return out;
}

/* ---- cheap states ---- */

static int ends_in(const char *name, const char *end)
{
    const size_t n = strlen(name), k = strlen(end);
    return n >= k && strcmp(name + n - k, end) == 0;
}

static int is_norm(const char *name)
{
    return strstr(name, "LayerNorm.") || strstr(name, "ln_") || strstr(name, ".bn") || strncmp(name, "bn1.", 4) == 0 ||
           strstr(name, "downsample.1.");
}

static int is_query_or_key(const char *name)
{
    return strstr(name, "query.weight") || strstr(name, "key.weight") || strstr(name, "c_attn.weight");
}

static void make_zero(const char *name, float *w)
{
    (void)name;
    *w = 0;
}
static void make_equal(const char *name, float *w)
{
    (void)name;
    *w = 0.02f;
}
static void make_huge(const char *name, float *w)
{
    (void)name;
    *w *= 1e6f;
}
/* ReLU and GELU are 0, and so are their gradients. */
static void make_dead(const char *name, float *w)
{
    *w = ends_in(name, ".bias") ? -1e6f : *w;
}
/* GELU is the identity, and sums are absorbed. */
static void make_saturated(const char *name, float *w)
{
    *w = ends_in(name, ".bias") ? 1e6f : *w;
}
static void make_one_hot(const char *name, float *w)
{
    *w = is_query_or_key(name) ? *w * 1e5f : *w;
}
static void make_zero_gamma(const char *name, float *w)
{
    *w = is_norm(name) && ends_in(name, ".weight") ? 0 : *w;
}
/* Dead by what a few large steps of SGD may do. */
static void make_just_dead(const char *name, float *w)
{
    *w = is_norm(name) && ends_in(name, ".bias") ? -6 : *w;
}

static const struct {
    const char *name;
    void (*make)(const char *name, float *w);
} cheap[] = {{"zero", make_zero}, {"equal", make_equal}, {"huge", make_huge}, {"dead", make_dead},
             {"saturated", make_saturated}, {"one-hot", make_one_hot}, {"zero gamma", make_zero_gamma},
             {"just dead", make_just_dead}};

/* A copy of a state with other weights: slots of the optimizer and running statistics stay. */
static void write_cheap(const char *from, const char *to, void (*make)(const char *name, float *w))
{
    struct rp_st st;
    struct rp_err err;
    RP_BUF bytes = {0};
    CHECK(rp_read_file(&bytes, from, 1 << 26, &err) == 0 && rp_st_open(&st, from, &err) == 0, "%s", err.msg);
    for (int i = 0; i < st.n; i++) {
        const char *name = st.t[i].name;
        if (strncmp(name, "optimizer.", 10) == 0 || strstr(name, "running_"))
            continue;
        for (uint64_t at = st.t[i].begin; at < st.t[i].end; at += sizeof(float)) {
            float w;
            memcpy(&w, bytes.data + st.data + at, sizeof w);
            make(name, &w);
            memcpy(bytes.data + st.data + at, &w, sizeof w);
        }
    }
    rp_st_close(&st);
    CHECK(rp_write_file(to, bytes.data, bytes.size, 0644, &err) == 0, "%s", err.msg);
}

/* A state that is not refused costs within 5 % of an untrained one. */
static void try_cheap(struct training *x, const char *what, const char *from, int i, double untrained)
{
    RP_FREE char *path = rp_strdup(scratch("cheap.safetensors"));
    write_cheap(from, path, cheap[i].make);
    const struct rp_reach is = reach(x, path);
    const double bare = count_needed(x, path, 0) / untrained, needed = count_needed(x, path, 1) / untrained;
    printf("# %s, %s: %s%.4g of the bound (%s), %.1f %% of the products of an untrained state, %.1f %% without "
           "perturbation\n",
           what, cheap[i].name, is.used > 1 ? "refused, " : "", is.used, is.tensor, 100 * needed, 100 * bare);
    CHECK(is.used > 1 || needed > 0.95, "%s, %s: within reach (%g), and needs %.1f %%", what, cheap[i].name, is.used,
          100 * needed);
    if (cheap[i].make == make_zero)
        CHECK(bare < 0.35 && needed > 0.6, "%s, zeros: %.1f %% before the perturbation, %.1f %% after it", what,
              100 * bare, 100 * needed);
    if (cheap[i].make == make_dead)
        CHECK(needed < RP_NEEDED_LEAST, "%s, dead: %.1f %% are counted", what, 100 * needed);
}

/* A state whose weights are honest, and one slot is not: the next step moves the weight as far as one likes. */
static void try_slots(struct training *x, const char *what, const char *from)
{
    static const float made_up[] = {1e10f, -1e10f, 1.0f};
    RP_FREE char *path = rp_strdup(scratch("slots.safetensors"));
    const int adam = x->recipe.optimizer_name == RP_OPTIMIZER_adamw || x->recipe.optimizer_name == RP_OPTIMIZER_lamb;
    for (size_t k = 0; k < sizeof made_up / sizeof *made_up; k++) {
        struct rp_st st;
        struct rp_err err;
        RP_BUF bytes = {0};
        CHECK(rp_read_file(&bytes, from, 1 << 26, &err) == 0 && rp_st_open(&st, from, &err) == 0, "%s", err.msg);
        const struct rp_st_tensor *m = NULL, *v = NULL;
        for (int i = 0; i < st.n && !m; i++) /* the first slot of a weight with several elements */
            if (strncmp(st.t[i].name, adam ? "optimizer.m." : "optimizer.momentum.", adam ? 12 : 19) == 0 &&
                st.t[i].end - st.t[i].begin > 64)
                m = &st.t[i];
        RP_FREE char *of = rp_asprintf("optimizer.v.%s", m ? m->name + (adam ? 12 : 19) : "");
        v = adam ? rp_st_find(&st, of) : NULL;
        CHECK(m && (v || !adam), "no slots");
        const float zero = 0;
        if (v) /* its m is the most that a gradient can leave, in the third case with v as if there had been none */
            memcpy(bytes.data + st.data + v->begin + 8, &zero, sizeof zero);
        const float huge = made_up[k] * (adam ? 1 : 1e6f);
        memcpy(bytes.data + st.data + m->begin + 8, &huge, sizeof huge);
        CHECK(rp_write_file(path, bytes.data, bytes.size, 0644, &err) == 0, "%s", err.msg);
        const struct rp_reach is = reach(x, path);
        CHECK(is.used > 1 && strcmp(is.tensor, m->name) == 0 && is.element == (adam ? 2 : -1),
              "%s: %g of the bound, element %lld of '%s'", what, is.used, (long long)is.element, is.tensor);
        rp_st_close(&st);
    }
}

static void try_training(struct training *x, const char *what)
{
    RP_FREE char *path = rp_strdup(scratch("state.safetensors"));
    x->recipe.seed_perturbation = 0x123456789ll;
    x->recipe.evidence_state_root_every = EVERY;
    train(x, path);
    const double untrained = count_needed(x, NULL, 1), needed = count_needed(x, path, 1) / untrained;
    const struct rp_reach is = reach(x, path);
    printf("# %s: %.3f of the bound (%s), %.1f %% of the products of an untrained state, which needs %.1f %%\n", what,
           is.used, is.tensor, 100 * needed, 100 * untrained);
    CHECK(is.used > 0.001 && is.used <= 1, "%s: an honest state takes %g of its bound in '%s'", what, is.used,
          is.tensor);
    CHECK(needed > 0.95 && needed < 1.05, "%s: an honest state needs %.1f %%", what, 100 * needed);
    try_slots(x, what, path);
    for (int i = 0; i < (int)(sizeof cheap / sizeof *cheap); i++)
        if (x->format != &noise_format || cheap[i].make != make_one_hot) /* it has no attention */
            try_cheap(x, what, path, i, untrained);
    rp_recipe_fini(&x->recipe);
}

static void try_text_model(struct rp_recipe recipe, const char *what)
{
    struct training x = {.recipe = recipe, .format = &fixture_format};
    x.data = samples_new(&x.recipe, 7);
    try_training(&x, what);
    samples_free(&x.data);
}

static void try_resnet(const char *optimizer)
{
    struct rp_err err;
    struct training x = {.format = &noise_format};
    RP_FREE char *yaml = rp_asprintf(
        "workload: resnet50\nmodel: {width: 8, blocks: \"1,1,1,1\", num_classes: 7}\ntask: {image_size: 32}\n"
        "train: {batch_size: 4}\n%s\nschedule: {total_steps: 1000, warmup_steps: 100}\n",
        optimizer);
    CHECK(rp_recipe_parse(&x.recipe, yaml, strlen(yaml), "noise.yaml", NULL, NULL, 0, &err) == 0, "%s", err.msg);
    try_training(&x, optimizer);
}

TEST(states_of_bert)
{
    struct rp_recipe lamb = small_recipe();
    lamb.optimizer_name = RP_OPTIMIZER_lamb;
    try_text_model(small_recipe(), "BERT, AdamW");
    try_text_model(lamb, "BERT, LAMB");
}

TEST(states_of_gpt)
{
    struct rp_recipe r = small_gpt();
    r.optimizer_bias_correction = 1;
    r.optimizer_clip_norm = 1;
    try_text_model(r, "GPT, AdamW");
}

TEST(states_of_resnet)
{
    try_resnet("optimizer: {name: sgd, learning_rate: 0.1, weight_decay: 5e-5, nesterov: true}");
    try_resnet("optimizer: {name: lars, learning_rate: 2, weight_decay: 5e-5}");
}

/* The factor of a perturbation is below 2^-10, its step below 2^-10 of the deviation: a weight that is moved by twice
 * that is too far. */
TEST(the_bound_of_an_untrained_state_is_that_of_its_perturbations)
{
    struct rp_err err;
    struct training x = {.recipe = small_recipe(), .format = &fixture_format};
    RP_FREE char *path = rp_strdup(scratch("perturbed.safetensors"));
    x.recipe.seed_perturbation = 77;
    x.recipe.evidence_state_root_every = 1;
    x.recipe.optimizer_learning_rate = 0;
    x.data = samples_new(&x.recipe, 7);
    for (int n = 1; n <= 3; n++) {
        struct rp_reach out;
        const struct rp_records none = {0};
        CHECK(open_training(&x, NULL, &err) == 0, "%s", err.msg);
        for (int i = 0; i < n; i++) {
            x.t->done = i;
            CHECK(rp_train_perturb(x.t, &err) == 0, "%s", err.msg);
        }
        CHECK(rp_train_save(x.t, path, &x.recipe, &err) == 0, "%s", err.msg);
        close_training(&x);
        CHECK(rp_reach_check(&out, path, &x.recipe, &none, 3, &err) == 0 && out.used <= 1 && out.used > n / 6.0,
              "%d perturbations of 3: %g", n, out.used);
        CHECK(rp_reach_check(&out, path, &x.recipe, &none, 1, &err) == 0 && (out.used > 1) == (n > 1),
              "%d perturbations of 1: %g", n, out.used);
    }
    samples_free(&x.data);
    rp_recipe_fini(&x.recipe);
}

/* A state of six updates is out of reach of a run whose steps all overflowed; each one that did brings the bound
 * nearer. */
TEST(steps_that_overflowed_move_no_weight)
{
    struct training x = {.recipe = small_recipe(), .format = &fixture_format};
    RP_FREE char *path = rp_strdup(scratch("updates.safetensors"));
    x.recipe.seed_perturbation = 77;
    x.recipe.evidence_state_root_every = EVERY;
    x.data = samples_new(&x.recipe, 7);
    train(&x, path);
    const struct rp_reach honest = reach(&x, path);
    CHECK(honest.used <= 1, "six updates of six: %g in '%s'", honest.used, honest.tensor);
    for (int skipped = 1; skipped <= STEPS; skipped++) {
        x.record[skipped - 1].overflow = 1;
        x.record[skipped - 1].grad_norm = INFINITY;
        const struct rp_reach is = reach(&x, path);
        CHECK(is.used >= honest.used && !isnan(is.used), "%d skipped: %g of the bound", skipped, is.used);
        CHECK(skipped < STEPS || is.used > 1, "six updates of none: %g in '%s'", is.used, is.tensor);
    }
    samples_free(&x.data);
    rp_recipe_fini(&x.recipe);
}

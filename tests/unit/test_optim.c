/* Learning-rate schedules, and whole steps of SGD and LARS over a list of tensors, against the formulas as PyTorch, the
 * published scripts and MLPerf's reference write them, in double. tests/ops/test_image_math.c has the update of one
 * tensor. */
#include "base/buf.h"
#include "tests/unit/noise_images.h"
#include "tests/unit/tap.h"

#include <math.h>

/* ---- schedules ---- */

static const double pi = 3.14159265358979323846;

static int is_near(double got, double want, double most)
{
    return fabs(got - want) <= most;
}

TEST(cosine_of_a_half_turn)
{
    double worst = 0;
    for (int i = 0; i <= 20000; i++) {
        const double x = i / 20000.0,
                     error = fabs(rp_cos_pi(x) - (double)cosl(3.14159265358979323846264L * (long double)x));
        worst = error > worst ? error : worst;
    }
    CHECK(worst < 2.5e-16, "%g", worst);
    CHECK(rp_cos_pi(0) == 1 && rp_cos_pi(1) == -1 && is_near(rp_cos_pi(0.5), 0, 1e-16), "ends");
}

/* As the scripts of OneFlow and TensorFlow: warm-up, then half a cosine over the steps after it. */
TEST(cosine_by_step)
{
    enum { WARMUP = 7, TOTAL = 61 };
    for (int low = 0; low < 2; low++) {
        const struct rp_optim o = {
            .lr = 0.256, .min_lr = low ? 0.01 : 0, .warmup = WARMUP, .total = TOTAL, .decay = RP_DECAY_cosine};
        for (int t = 1; t <= TOTAL + 5; t++) {
            double want = t <= WARMUP
                              ? o.lr * t / WARMUP
                              : o.min_lr + (o.lr - o.min_lr) * 0.5 * (1 + cos(pi * (t - WARMUP) / (TOTAL - WARMUP)));
            want = t > TOTAL ? o.min_lr : want;
            CHECK(is_near(rp_learning_rate(&o, t), want, 1e-16), "t %d: %.17g, not %.17g", t, rp_learning_rate(&o, t),
                  want);
        }
    }
    const struct rp_optim cold = {.lr = 1, .total = 10, .decay = RP_DECAY_cosine};
    CHECK(is_near(rp_learning_rate(&cold, 5), 0.5, 1e-15) && rp_learning_rate(&cold, 10) == 0 &&
          rp_learning_rate(&cold, 11) == 0);
}

/* lr_cosine_policy of DeepLearningExamples: epoch e from 0, (e + 1) / W in warm-up, then cosine of (e - W) / (E -
 * W). */
TEST(cosine_by_whole_epoch)
{
    enum { STEPS = 13, WARMUP = 3, EPOCHS = 20 };
    const struct rp_optim o = {.lr = 2.048, .warmup = WARMUP * STEPS, .total = EPOCHS * STEPS, .decay = RP_DECAY_cosine,
                               .epoch = STEPS, .whole_epochs = 1};
    for (int t = 1; t <= (EPOCHS + 2) * STEPS; t++) {
        const int e = (t - 1) / STEPS;
        const double want = e < WARMUP   ? 2.048 * (e + 1) / WARMUP
                            : e < EPOCHS ? 0.5 * (1 + cos(pi * (e - WARMUP) / (EPOCHS - WARMUP))) * 2.048
                                         : 0;
        CHECK(is_near(rp_learning_rate(&o, t), want, 1e-15), "t %d: %.17g, not %.17g", t, rp_learning_rate(&o, t),
              want);
    }
}

/* torch.optim.lr_scheduler.StepLR(step_size=30, gamma=0.1), its epochs in steps; with warm-up before it. */
TEST(steps_of_ten)
{
    enum { STEPS = 5, EACH = 30, WARMUP = 12 };
    struct rp_optim o = {.lr = 0.1, .total = 1000000, .decay = RP_DECAY_step, .epoch = STEPS, .step_epochs = EACH};
    for (int warm = 0; warm < 2; warm++) {
        o.warmup = warm ? WARMUP : 0;
        for (int t = 1; t <= 6 * EACH * STEPS; t++) {
            const double want = t <= o.warmup ? 0.1 * t / WARMUP : 0.1 * pow(0.1, (t - 1) / STEPS / EACH);
            CHECK(is_near(rp_learning_rate(&o, t), want, 1e-15 * want), "t %d: %.17g, not %.17g", t,
                  rp_learning_rate(&o, t), want);
        }
    }
    CHECK(rp_learning_rate(&o, EACH * STEPS) == 0.1 && rp_learning_rate(&o, EACH * STEPS + 1) == 0.01,
          "between epochs 30 and 31");
    CHECK(rp_learning_rate(&o, (int64_t)1 << 40) == 0, "it ends");
}

/* MLPerf's PolynomialDecayWithWarmup: lr s / W for s <= W, then (lr - end) (1 - min(s - W, D) / D)^2 + end, D = steps -
 * W + 1; its steps are one fewer than ours, and schedule.total_steps is its last plus 1. */
TEST(quadratic_from_the_end_of_warm_up)
{
    enum { WARMUP = 1570, STEPS = 29045 };
    const struct rp_optim o = {
        .lr = 7.4, .min_lr = 1e-4, .warmup = WARMUP, .total = STEPS + 1, .decay = RP_DECAY_quadratic};
    for (int s = 1; s <= STEPS + 10; s++) {
        const double all = STEPS - WARMUP + 1, at = s - WARMUP < all ? s - WARMUP : all, left = 1 - at / all;
        const double want = s <= WARMUP ? 7.4 * s / WARMUP : (7.4 - 1e-4) * (left * left) + 1e-4;
        if (!CHECK(is_near(rp_learning_rate(&o, s), want, 4e-15), "step %d: %.17g, not %.17g", s,
                   rp_learning_rate(&o, s), want))
            break;
    }
}

/* Polynomials from step 0, as BERT's: lr (1 - t / T)^p, by epochs where the recipe has whole_epochs. */
TEST(polynomials_from_step_0)
{
    static const struct {
        enum rp_decay decay;
        double power;
    } kinds[] = {{RP_DECAY_constant, 0}, {RP_DECAY_sqrt, 0.5}, {RP_DECAY_linear, 1}, {RP_DECAY_square, 2}};
    for (int k = 0; k < 4; k++)
        for (int epoch = 1; epoch <= 4; epoch += 3) {
            const struct rp_optim o = {.lr = 0.3, .warmup = 8, .total = 40, .decay = kinds[k].decay, .epoch = epoch,
                                       .whole_epochs = epoch > 1};
            for (int t = 1; t < 50; t++) {
                const double now = o.whole_epochs ? (t - 1) / epoch : t, all = 40.0 / epoch, warm = 8.0 / epoch;
                const int warming = o.whole_epochs ? now < warm : now <= warm;
                const double want = warming                            ? 0.3 * (now + o.whole_epochs) / warm
                                    : now >= all && kinds[k].power > 0 ? 0
                                                                       : 0.3 * pow(1 - now / all, kinds[k].power);
                CHECK(is_near(rp_learning_rate(&o, t), want, 1e-16), "power %g, t %d: %.17g, not %.17g", kinds[k].power,
                      t, rp_learning_rate(&o, t), want);
            }
        }
}

/* ---- whole steps ---- */

/* A convolution, its norm, a shortcut's norm, and a classifier: more than one chunk of a norm, and less. */
static const struct {
    const char *name;
    long n;
} weights[] = {{"layer1.0.conv1.weight", 4099},
               {"layer1.0.bn1.weight", 17},
               {"layer1.0.downsample.1.weight", 9},
               {"fc.weight", 8200},
               {"fc.bias", 10}};
enum { WEIGHTS = sizeof weights / sizeof *weights, MOST = 8200, STEPS = 4, MICROS = 2 };

struct world {
    struct rp_tensors list;
    struct rp_trained x;
    struct rp_optim o;
    struct rp_recipe recipe;
    double *w[WEIGHTS], *m[WEIGHTS], *g[WEIGHTS]; /* what should be */
};

static void world_open(struct world *s, const char *yaml)
{
    struct rp_err err = {0};
    *s = (struct world){0};
    CHECK(rp_recipe_parse(&s->recipe, yaml, strlen(yaml), "world.yaml", NULL, NULL, 0, &err) == 0, "%s", err.msg);
    for (int i = 0; i < WEIGHTS; i++)
        rp_tensors_add(&s->list,
                       &(struct rp_tensor){.name = weights[i].name, .at = &(float *){NULL}, .dim = {weights[i].n}});
    rp_tensors_end(&s->list);
    s->x = (struct rp_trained){.dev = fixture_device("reference", 1, 1, 1),
                               .optimizer = rp_optimizer_of(&s->recipe),
                               .weights = &s->list,
                               .parallel = 1,
                               .w = rp_alloc(s->list.bytes),
                               .g = rp_alloc(s->list.bytes),
                               .slot = {rp_alloc(s->list.bytes)},
                               .chunks = rp_alloc(64 * sizeof(float)),
                               .sums = rp_alloc(4 * sizeof(float))};
    rp_optim_init(&s->o, &s->recipe, &s->list);
    rp_shares_init(&s->x.shares, &s->list, 1, rp_comm_self(), 0);
    sample_state = 11;
    for (int i = 0; i < WEIGHTS; i++) {
        float *w = rp_tensor_in(s->x.w, &s->list.t[i]);
        s->w[i] = rp_alloc(MOST * sizeof(double));
        s->m[i] = rp_alloc(MOST * sizeof(double));
        s->g[i] = rp_alloc(MOST * sizeof(double));
        for (long k = 0; k < weights[i].n; k++)
            s->w[i][k] = w[k] = (float)(sample_below(2001) - 1000) / 4000;
    }
}

static void world_close(struct world *s)
{
    for (int i = 0; i < WEIGHTS; i++) {
        free(s->w[i]);
        free(s->m[i]);
        free(s->g[i]);
    }
    free(s->x.w);
    free(s->x.g);
    free(s->x.slot[0]);
    free(s->x.chunks);
    free(s->x.sums);
    fixture_close(s->x.dev);
    rp_optim_fini(&s->o);
    rp_shares_fini(&s->x.shares);
    rp_tensors_fini(&s->list);
    rp_recipe_fini(&s->recipe);
}

/* The sum of the gradients of two micro-batches on the device; g: their mean. */
static double draw_gradients(struct world *s)
{
    double square = 0;
    for (int i = 0; i < WEIGHTS; i++)
        for (long k = 0; k < weights[i].n; k++) {
            float *g = rp_tensor_in(s->x.g, &s->list.t[i]) + k;
            *g = (float)(sample_below(2001) - 1000) / 3000;
            s->g[i][k] = (double)*g / MICROS;
            square += s->g[i][k] * s->g[i][k];
        }
    return sqrt(square);
}

static double norm_of(const double *x, long n)
{
    double sum = 0;
    for (long k = 0; k < n; k++)
        sum += x[k] * x[k];
    return sqrt(sum);
}

/* The weights and momenta after `t` steps; most: the largest difference allowed, both are of the order 1. */
static void compare_world(const struct world *s, int t, double most)
{
    for (int i = 0; i < WEIGHTS; i++) {
        const float *w = rp_tensor_in(s->x.w, &s->list.t[i]), *m = rp_tensor_in(s->x.slot[0], &s->list.t[i]);
        double worst = 0;
        for (long k = 0; k < weights[i].n; k++) {
            worst = fmax(worst, fabs((double)w[k] - s->w[i][k]));
            worst = fmax(worst, fabs((double)m[k] - s->m[i][k]));
        }
        CHECK(worst <= most, "step %d, %s: %g", t, weights[i].name, worst);
    }
}

/* torch.optim.SGD: grad += decay * w; buf = momentum * buf + grad; grad = nesterov ? grad + momentum * buf : buf; w -=
 * lr * grad. */
static void torch_sgd(struct world *s, int i, double lr, double momentum, int nesterov, double decay, double clip)
{
    for (long k = 0; k < weights[i].n; k++) {
        double grad = s->g[i][k] * clip + decay * s->w[i][k];
        s->m[i][k] = momentum * s->m[i][k] + grad;
        grad = nesterov ? grad + momentum * s->m[i][k] : s->m[i][k];
        s->w[i][k] -= lr * grad;
    }
}

TEST(sgd_as_pytorch_and_its_exemptions)
{
    for (int variant = 0; variant < 8; variant++) {
        const int nesterov = variant & 1, clipped = variant & 2, all = variant & 4;
        char yaml[512];
        struct world s;
        snprintf(yaml, sizeof yaml,
                 "workload: resnet50\noptimizer: {name: sgd, learning_rate: 0.2, momentum: 0.875, nesterov: %s, "
                 "weight_decay: 0.05, clip_norm: %s, weight_decay_form: %s, exclude_from_weight_decay: "
                 "[%s]}\nschedule: {warmup_steps: 2, total_steps: 10, decay: cosine}\n",
                 nesterov ? "true" : "false", clipped ? "3" : "0", variant & 1 ? "loss" : "decay",
                 all ? "" : "bn, bias");
        world_open(&s, yaml);
        for (int t = 1; t <= STEPS; t++) {
            struct rp_err err;
            float norm;
            const double want = draw_gradients(&s), clip = clipped && want > 3 ? 3 / want : 1;
            const double lr = t <= 2 ? 0.1 * t : 0.1 * (1 + cos(pi * (t - 2) / 8));
            CHECK(rp_global_norm(&norm, &s.x, 1.0f, 1.0f / MICROS, &err) == 0 &&
                      is_near((double)norm, want, 1e-6 * want),
                  "norm %g, not %g", (double)norm, want);
            CHECK(want > 4, "it is clipped where it can be");
            for (int i = 0; i < WEIGHTS; i++) /* the shortcut's norm has a name without bn: it decays */
                torch_sgd(&s, i, lr, 0.875, nesterov, !all && (i == 1 || i == 4) ? 0 : 0.05, clip);
            CHECK(rp_optim_step(&s.o, &s.x, t, t, norm, 1.0f / MICROS, &err) == 0, "%s", err.msg);
            compare_world(&s, t, 2e-7 * (t + 1));
        }
        world_close(&s);
    }
}

/* MLPerf's LARSOptimizer: trust = eeta |w| / (|g| + decay |w| + epsilon) where both norms are above 0, else 1; grad +=
 * decay w; accum = momentum accum + lr trust grad; w -= accum, or with Nesterov lr trust grad + momentum accum. Names
 * of the skip list: trust 1, no decay. Ours keeps -accum. */
static void mlperf_lars(struct world *s, int i, double lr, double momentum, int nesterov, int skipped)
{
    const double nw = norm_of(s->w[i], weights[i].n), ng = norm_of(s->g[i], weights[i].n), decay = skipped ? 0 : 2e-4,
                 eeta = 0.001, epsilon = 1e-6;
    const double rate = !skipped && nw > 0 && ng > 0 ? lr * (eeta * nw / (ng + decay * nw + epsilon)) : lr;
    for (long k = 0; k < weights[i].n; k++) {
        const double grad = rate * (s->g[i][k] + decay * s->w[i][k]), accum = momentum * -s->m[i][k] + grad;
        s->m[i][k] = -accum;
        s->w[i][k] -= nesterov ? grad + momentum * accum : accum;
    }
}

TEST(lars_as_mlperf_and_its_skip_list)
{
    for (int variant = 0; variant < 4; variant++) {
        const int nesterov = variant & 1, zeros = variant & 2;
        char yaml[512];
        struct world s;
        snprintf(yaml, sizeof yaml,
                 "workload: resnet50\noptimizer: {name: lars, learning_rate: 8, momentum: 0.9, nesterov: %s, "
                 "trust_coefficient: 0.001, epsilon: 1e-6, weight_decay: 2e-4, clip_norm: 0, "
                 "exclude_from_weight_decay: [bn, downsample.1, bias]}\nschedule: {total_steps: 10, decay: "
                 "quadratic}\n",
                 nesterov ? "true" : "false");
        world_open(&s, yaml);
        if (zeros) { /* a tensor without a norm: its ratio is 1 */
            memset(rp_tensor_in(s.x.w, &s.list.t[3]), 0, MOST * sizeof(float));
            memset(s.w[3], 0, MOST * sizeof(double));
        }
        for (int t = 1; t <= STEPS; t++) {
            draw_gradients(&s);
            if (zeros) {
                memset(rp_tensor_in(s.x.g, &s.list.t[0]), 0, (size_t)weights[0].n * sizeof(float));
                memset(s.g[0], 0, (size_t)weights[0].n * sizeof(double));
            }
            for (int i = 0; i < WEIGHTS; i++)
                mlperf_lars(&s, i, 8 * (1 - t / 10.0) * (1 - t / 10.0), 0.9, nesterov, i == 1 || i == 2 || i == 4);
            struct rp_err err;
            CHECK(rp_optim_step(&s.o, &s.x, t, t, 0, 1.0f / MICROS, &err) == 0, "%s", err.msg);
            compare_world(&s, t, 2e-6 * (t + 1));
        }
        world_close(&s);
    }
}

/* ---- decay as a part of the loss ---- */

/* Two steps of a tiny ResNet. square: before each, the sum of squares of what decays. */
static void two_steps(const char *form, struct rp_step_result step[2], double square[2], char root[65])
{
    char yaml[512];
    struct noise_train n;
    struct rp_err err;
    snprintf(yaml, sizeof yaml,
             "workload: resnet50\nmodel: {width: 4, blocks: \"1,1,1,1\", num_classes: 7}\ntask: {image_size: 16}\n"
             "train: {batch_size: 2, accumulation_steps: 2}\noptimizer: {name: sgd, learning_rate: 0.1, weight_decay: "
             "0.01, clip_norm: 0,"
             " weight_decay_form: %s, exclude_from_weight_decay: [bn]}\n",
             form);
    noise_train_open(&n, yaml, &err);
    if (!CHECK(n.t, "%s", err.msg))
        return;
    for (int i = 0; i < 2; i++) {
        const struct rp_tensors *l = n.t->state.weights;
        square[i] = 0;
        for (int k = 0; k < l->n; k++) {
            char name[RP_TENSOR_NAME];
            if (strstr(rp_tensor_name(name, &l->t[k]), "bn"))
                continue;
            for (size_t j = 0; j < l->t[k].count; j++)
                square[i] += pow((double)rp_tensor_in(n.t->state.w, &l->t[k])[j], 2);
        }
        CHECK(rp_train_load(n.t, i, &err) == 0 && rp_train_step(n.t, i, &step[i], &err) == 0, "%s", err.msg);
    }
    CHECK(rp_train_root(n.t, root, NULL, &err) == 0, "%s", err.msg);
    noise_train_close(&n);
}

/* The gradient of decay/2 |w|^2 is decay w: the loss differs by that part, and nothing else does. */
TEST(decay_as_a_part_of_the_loss)
{
    struct rp_step_result step[2][2];
    double square[2][2];
    char root[2][65];
    two_steps("decay", step[0], square[0], root[0]);
    two_steps("loss", step[1], square[1], root[1]);
    CHECK_STR(root[1], root[0]);
    for (int i = 0; i < 2; i++) {
        const double part = 0.005 * square[0][i];
        CHECK(part > 0.05 && is_near((double)step[1][i].part[1], part, 1e-6 * part), "step %d: %g, not %g", i,
              (double)step[1][i].part[1], part);
        CHECK(step[0][i].part[1] == 0 && step[1][i].part[0] == step[0][i].part[0] &&
                  step[1][i].grad_norm == step[0][i].grad_norm,
              "step %d", i);
        CHECK(is_near((double)step[1][i].loss, (double)step[0][i].loss + part, 1e-6), "step %d", i);
    }
}

/* The loss scale: tables by hand, other trainers' scalers written again from their documentation, and runs that
 * overflow, save and go on. */
#include "optim/loss_scale.h"
#include "tests/unit/scratch.h"
#include "tests/unit/trials.h"
#include "train/checkpoint.h"

#include <math.h>

/* ---- tables ---- */

struct table_row {
    int overflow;
    float scale; /* the state after the step */
    int64_t good, bad, at_minimum, skipped;
};

static void check_table(const char *what, const struct rp_loss_scale_rule *rule, const struct table_row *row, int n)
{
    struct rp_loss_scale s = rp_loss_scale_begin(rule);
    CHECK(s.scale == rule->initial && !s.good && !s.bad && !s.at_minimum && !s.skipped, "%s: before the first step",
          what);
    for (int i = 0; i < n; i++) {
        rp_loss_scale_next(&s, rule, row[i].overflow);
        CHECK(s.scale == row[i].scale && s.good == row[i].good && s.bad == row[i].bad &&
                  s.at_minimum == row[i].at_minimum && s.skipped == row[i].skipped,
              "%s, step %d: %a, good %lld, bad %lld, at the minimum %lld, skipped %lld", what, i, (double)s.scale,
              (long long)s.good, (long long)s.bad, (long long)s.at_minimum, (long long)s.skipped);
    }
}
#define CHECK_TABLE(what, rule, ...)                                                                                   \
    do {                                                                                                               \
        static const struct table_row rows[] = {__VA_ARGS__};                                                          \
        check_table(what, rule, rows, sizeof rows / sizeof *rows);                                                     \
    } while (0)

TEST(hysteresis_1_halves_at_once_and_doubles_after_the_window)
{
    const struct rp_loss_scale_rule rule = {
        .is_dynamic = 1, .initial = 16, .minimum = 1, .window = 3, .hysteresis = 1, .if_finite = 1};
    CHECK_TABLE("window 3", &rule, {0, 16, 1, 0, 0, 0}, {0, 16, 2, 0, 0, 0},
                {0, 32, 0, 0, 0, 0}, /* the third in a row */
                {0, 32, 1, 0, 0, 0}, {1, 16, 0, 1, 0, 1}, {1, 8, 0, 2, 0, 2}, {0, 8, 1, 2, 0, 2}, {0, 8, 2, 2, 0, 2},
                {1, 4, 0, 3, 0, 3}, {0, 4, 1, 3, 0, 3}, {0, 4, 2, 3, 0, 3}, {0, 8, 0, 0, 0, 3});
}

/* Good steps between two overflows do not make the second one the first again: only growth does. */
TEST(hysteresis_2_tolerates_one_overflow_between_growths)
{
    const struct rp_loss_scale_rule rule = {.is_dynamic = 1, .initial = 16, .minimum = 1, .window = 3, .hysteresis = 2};
    CHECK_TABLE("hysteresis 2", &rule, {1, 16, 0, 1, 0, 1}, {0, 16, 1, 1, 0, 1}, {0, 16, 2, 1, 0, 1},
                {1, 8, 0, 2, 0, 2}, {1, 4, 0, 3, 0, 3}, {0, 4, 1, 3, 0, 3}, {0, 4, 2, 3, 0, 3}, {0, 8, 0, 0, 0, 3},
                {1, 8, 0, 1, 0, 4}, {1, 4, 0, 2, 0, 5});
}

TEST(a_scale_at_the_minimum_stays_and_counts)
{
    const struct rp_loss_scale_rule rule = {.is_dynamic = 1, .initial = 4, .minimum = 2, .window = 2, .hysteresis = 1};
    struct rp_loss_scale s = rp_loss_scale_begin(&rule);
    CHECK_TABLE("minimum 2", &rule, {1, 2, 0, 1, 0, 1}, {1, 2, 0, 2, 1, 2}, {1, 2, 0, 3, 2, 3}, {0, 2, 1, 3, 0, 3},
                {1, 2, 0, 4, 1, 4}, {0, 2, 1, 4, 0, 4}, {0, 4, 0, 0, 0, 4});
    for (int i = 0; i < 1 + RP_OVERFLOWS_MOST; i++) {
        CHECK(!rp_loss_scale_fails(&s), "after %d overflows", i);
        rp_loss_scale_next(&s, &rule, 1);
    }
    CHECK(rp_loss_scale_fails(&s), "%d overflows in a row at the minimum", RP_OVERFLOWS_MOST);
    rp_loss_scale_next(&s, &rule, 0);
    CHECK(!rp_loss_scale_fails(&s), "a good step after them");
}

/* 2^127 is the last power of two of fp32. */
TEST(growth_to_infinity_is_the_recipes_choice)
{
    struct rp_loss_scale_rule rule = {
        .is_dynamic = 1, .initial = 0x1p126f, .minimum = 1, .window = 1, .hysteresis = 1, .if_finite = 1};
    CHECK_TABLE("if finite", &rule, {0, 0x1p127f, 0, 0, 0, 0}, {0, 0x1p127f, 0, 0, 0, 0}, {1, 0x1p126f, 0, 1, 0, 1});
    rule.if_finite = 0;
    CHECK_TABLE("always", &rule, {0, 0x1p127f, 0, 0, 0, 0}, {0, INFINITY, 0, 0, 0, 0});
}

TEST(a_fixed_scale_only_counts)
{
    const struct rp_loss_scale_rule rule = {.initial = 128, .minimum = 1, .window = 1, .hysteresis = 1};
    CHECK_TABLE("fixed", &rule, {0, 128, 0, 0, 0, 0}, {0, 128, 0, 0, 0, 0}, {1, 128, 0, 0, 0, 1});
}

TEST(the_schedule_of_a_run_that_holds_counts_updates)
{
    struct rp_loss_scale_rule rule = {
        .is_dynamic = 1, .initial = 16, .minimum = 1, .window = 3, .hysteresis = 1, .holds_schedule = 1};
    struct rp_loss_scale s = rp_loss_scale_begin(&rule);
    rp_loss_scale_next(&s, &rule, 1);
    rp_loss_scale_next(&s, &rule, 1);
    rp_loss_scale_next(&s, &rule, 0);
    CHECK(rp_loss_scale_scheduled(&s, &rule, 4) == 2, "step 4 after 2 skipped ones is the second update");
    rule.holds_schedule = 0;
    CHECK(rp_loss_scale_scheduled(&s, &rule, 4) == 4, "the schedule goes on");
}

/* ---- the scalers of others, from what their documentation says ---- */

static uint32_t random_state;
static uint32_t random_below(uint32_t n)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % n;
}

/* Megatron-LM, DynamicGradScaler: "hysteresis" iterations with Inf or NaN, counted down and set back where the scale
 * grows, then every further one backs off; growth after growth_interval good iterations; not less than min_scale. */
struct megatron {
    double scale, min_scale;
    int growth_interval, hysteresis, growth_tracker, hysteresis_tracker;
};

static void megatron_update(struct megatron *m, int found_inf)
{
    if (!found_inf) {
        if (++m->growth_tracker == m->growth_interval) {
            m->growth_tracker = 0;
            m->hysteresis_tracker = m->hysteresis;
            m->scale *= 2;
        }
        return;
    }
    m->growth_tracker = 0;
    if (--m->hysteresis_tracker <= 0)
        m->scale = fmax(m->scale * 0.5, m->min_scale);
}

/* torch.amp.GradScaler.update(): backoff_factor at once if Inf or NaN were found this iteration; growth_factor after
 * growth_interval consecutive iterations without. The state is a tensor of fp32, and a scale that would not be finite
 * is not taken. */
struct torch_scaler {
    float scale;
    int growth_interval, unskipped;
};

static void torch_update(struct torch_scaler *t, int found_inf)
{
    if (found_inf) {
        t->scale *= 0.5f;
        t->unskipped = 0;
    } else if (++t->unskipped == t->growth_interval) {
        t->scale = isinf(t->scale * 2) ? t->scale : t->scale * 2;
        t->unskipped = 0;
    }
}

/* TensorFlow, DynamicLossScale(initial_loss_scale, increment_period, multiplier): finite gradients for increment_period
 * steps multiply it, only if the result is finite; others divide it, to at least 1. */
struct tf_loss_scale {
    float current;
    int increment_period, good_steps;
};

static void tf_update(struct tf_loss_scale *t, int found_inf)
{
    if (found_inf) {
        t->current = fmaxf(t->current / 2, 1);
        t->good_steps = 0;
    } else if (t->good_steps + 1 >= t->increment_period) {
        if (isfinite(t->current * 2))
            t->current *= 2;
        t->good_steps = 0;
    } else
        t->good_steps++;
}

/* Overflows of a run: rare, frequent, in bursts; or those of gradients that overflow above a scale. */
static int draw_overflow(int kind, float scale, float threshold)
{
    switch (kind % 4) {
    case 0:
        return random_below(20) == 0;
    case 1:
        return random_below(2) == 0;
    case 2:
        return random_below(64) < 48 ? 0 : random_below(8) != 0;
    default:
        return scale > threshold || random_below(100) == 0;
    }
}

enum { RUNS = 400, RUN_STEPS = 300 };

TEST(random_runs_as_megatron_lm_scales_them)
{
    random_state = 1;
    for (int run = 0; run < RUNS; run++) {
        const struct rp_loss_scale_rule rule = {.is_dynamic = 1,
                                                .initial = ldexpf(1, (int)random_below(33)),
                                                .minimum = 1,
                                                .window = 1 + random_below(12),
                                                .hysteresis = 1 + random_below(4)};
        struct rp_loss_scale s = rp_loss_scale_begin(&rule);
        struct megatron m = {rule.initial, 1, (int)rule.window, (int)rule.hysteresis, 0, (int)rule.hysteresis};
        for (int step = 0, same = 1; step < RUN_STEPS && same; step++) {
            const int overflow = draw_overflow(run, s.scale, 0x1p10f);
            rp_loss_scale_next(&s, &rule, overflow);
            megatron_update(&m, overflow);
            if (m.scale > 0x1p127) /* theirs is a double until it multiplies a loss */
                break;
            same = CHECK(s.scale == (float)m.scale && s.good == m.growth_tracker &&
                             s.bad == m.hysteresis - m.hysteresis_tracker,
                         "run %d, step %d: %a, not %a", run, step, (double)s.scale, m.scale);
        }
    }
}

TEST(random_runs_as_pytorch_scales_them)
{
    random_state = 2;
    for (int run = 0; run < RUNS; run++) {
        /* its scale has no lower bound: above 2^-126 there is none to meet */
        const struct rp_loss_scale_rule rule = {.is_dynamic = 1,
                                                .initial = ldexpf(1, (int)random_below(127)),
                                                .minimum = 0x1p-126f,
                                                .window = 1 + random_below(12),
                                                .hysteresis = 1,
                                                .if_finite = 1};
        struct rp_loss_scale s = rp_loss_scale_begin(&rule);
        struct torch_scaler t = {rule.initial, (int)rule.window, 0};
        for (int step = 0, same = 1; step < RUN_STEPS && same && t.scale > 0x1p-126f; step++) {
            const int overflow = draw_overflow(run, s.scale, 0x1p10f);
            rp_loss_scale_next(&s, &rule, overflow);
            torch_update(&t, overflow);
            same = CHECK(s.scale == t.scale && s.good == t.unskipped, "run %d, step %d: %a, not %a", run, step,
                         (double)s.scale, (double)t.scale);
        }
    }
}

TEST(random_runs_as_tensorflow_scales_them)
{
    random_state = 3;
    for (int run = 0; run < RUNS; run++) {
        const struct rp_loss_scale_rule rule = {.is_dynamic = 1,
                                                .initial = ldexpf(1, (int)random_below(127)),
                                                .minimum = 1,
                                                .window = 1 + random_below(12),
                                                .hysteresis = 1,
                                                .if_finite = 1};
        struct rp_loss_scale s = rp_loss_scale_begin(&rule);
        struct tf_loss_scale t = {rule.initial, (int)rule.window, 0};
        for (int step = 0, same = 1; step < RUN_STEPS && same; step++) {
            const int overflow = draw_overflow(run, s.scale, 0x1p10f);
            rp_loss_scale_next(&s, &rule, overflow);
            tf_update(&t, overflow);
            same = CHECK(s.scale == t.current && s.good == t.good_steps, "run %d, step %d: %a, not %a", run, step,
                         (double)s.scale, (double)t.current);
        }
    }
}

/* ---- runs ---- */

enum { STEPS_OF_RUN = 10, SAVED_AFTER = 4 };

/* Begins so high that the first steps overflow, and grows again within the run. */
static struct rp_recipe overflowing(void)
{
    struct rp_recipe r = small_recipe();
    r.model_hidden_dropout_prob = 0.1;
    r.optimizer_bias_correction = 1;
    r.schedule_warmup_steps = 4;
    r.train_precision = RP_PRECISION_fp16;
    r.train_loss_scale_initial = 0x1p22;
    r.train_loss_scale_window = 2;
    return r;
}

struct run_record {
    float loss, norm, scale;
    double learning_rate;
    int overflow;
    char root[65];
};

/* Steps [from, to) of a run that begins at `from`. */
static struct rp_loss_scale run(struct run_record *out, const struct rp_recipe *r, const char *init, int from, int to,
                                const char *save)
{
    struct rp_err err = {0};
    struct rp_loss_scale scale = {0};
    struct fixture f;
    struct rp_recipe with = *r, longer = *r;
    longer.train_accumulation_steps = STEPS_OF_RUN; /* samples of as many steps */
    struct fixture_data data = samples_new(&longer, 5);
    with.run_init = (char *)(uintptr_t)init;
    if (!CHECK(fixture_open(&f, &with, "scalar", 1, 0, &data, &err) == 0, "%s", err.msg)) {
        fixture_fini(&f);
        samples_free(&data);
        return scale;
    }
    for (int i = from; i < to; i++) {
        struct rp_step_result s;
        struct run_record *is = &out[i];
        CHECK(rp_train_load(f.t, i - from, &err) == 0 && rp_train_step(f.t, i - from, &s, &err) == 0, "step %d: %s", i,
              err.msg);
        *is = (struct run_record){.loss = s.loss,
                                  .norm = s.grad_norm,
                                  .scale = s.loss_scale,
                                  .learning_rate = s.learning_rate,
                                  .overflow = s.overflow};
        CHECK(rp_train_root(f.t, is->root, NULL, &err) == 0, "%s", err.msg);
    }
    if (save)
        CHECK(rp_train_save(f.t, save, r, &err) == 0, "%s", err.msg);
    scale = f.t->state.scale;
    fixture_fini(&f);
    samples_free(&data);
    return scale;
}

/* What the records of a run say about its rule: scales follow from overflows, overflows change no weight, learning
 * rates count updates. */
static int check_records(const struct rp_recipe *r, const struct run_record *is, int n)
{
    const struct rp_loss_scale_rule rule = rp_loss_scale_rule_of(r);
    struct rp_loss_scale s = rp_loss_scale_begin(&rule);
    struct rp_optim optim = {0};
    struct rp_tensors none = {0};
    int overflows = 0;
    rp_optim_init(&optim, r, &none);
    for (int i = 0; i < n; i++) {
        CHECK(is[i].scale == s.scale, "step %d: %a, the rule has %a", i, (double)is[i].scale, (double)s.scale);
        CHECK(is[i].overflow == !isfinite(is[i].norm) && isfinite(is[i].loss), "step %d: norm %a", i,
              (double)is[i].norm);
        CHECK(is[i].learning_rate == rp_learning_rate(&optim, rp_loss_scale_scheduled(&s, &rule, i + 1)), "step %d: %a",
              i, is[i].learning_rate);
        CHECK(i == 0 || is[i].overflow == !strcmp(is[i].root, is[i - 1].root), "step %d: overflow %d", i,
              is[i].overflow);
        overflows += is[i].overflow;
        rp_loss_scale_next(&s, &rule, is[i].overflow);
    }
    rp_optim_fini(&optim);
    return overflows;
}

static int same_records(const struct run_record *a, const struct run_record *b, int n)
{
    for (int i = 0; i < n; i++)
        if (memcmp(&a[i].loss, &b[i].loss, sizeof a->loss) || a[i].scale != b[i].scale ||
            a[i].learning_rate != b[i].learning_rate || a[i].overflow != b[i].overflow ||
            (!a[i].overflow && a[i].norm != b[i].norm) || strcmp(a[i].root, b[i].root) != 0)
            return 0;
    return 1;
}

TEST(a_run_that_overflows_follows_the_rule)
{
    for (int advance = 0; advance < 2; advance++) {
        struct run_record is[STEPS_OF_RUN];
        struct rp_recipe r = overflowing();
        r.optimizer_on_overflow = advance ? RP_ON_OVERFLOW_advance : RP_ON_OVERFLOW_hold;
        run(is, &r, NULL, 0, STEPS_OF_RUN, NULL);
        const int overflows = check_records(&r, is, STEPS_OF_RUN);
        CHECK(is[0].overflow && overflows >= 3 && overflows < STEPS_OF_RUN - 3, "%d overflows", overflows);
        rp_recipe_fini(&r);
    }
}

/* Saved in the middle of its overflows as a directory, and after them as one file; with LONG=1 each the other way
 * too. */
TEST(a_run_that_was_saved_goes_on_with_its_scale)
{
    struct rp_recipe r = overflowing();
    for (int i = tap_long() ? 0 : 1; i < (tap_long() ? 4 : 3); i++) {
        struct run_record whole[STEPS_OF_RUN], parts[STEPS_OF_RUN];
        const int at = i < 2 ? 2 : 7;
        RP_FREE char *path = rp_strdup(scratch(i % 2 ? "saved.d" : "saved.safetensors"));
        if (i == 1)
            CHECK(mkdir(path, 0777) == 0);
        r.train_loss_scale_hysteresis = 1 + i % 2;
        const struct rp_loss_scale end = run(whole, &r, NULL, 0, STEPS_OF_RUN, NULL),
                                   middle = run(parts, &r, NULL, 0, at, path);
        const struct rp_loss_scale last = run(parts, &r, path, at, STEPS_OF_RUN, NULL);
        CHECK(middle.skipped > 0 && (at > 2 || whole[at].overflow), "%lld skipped", (long long)middle.skipped);
        CHECK(same_records(whole, parts, STEPS_OF_RUN), "saved after %d steps", at);
        CHECK(last.scale == end.scale && last.good == end.good && last.bad == end.bad &&
                  last.at_minimum == end.at_minimum && last.skipped == end.skipped,
              "saved after %d steps: %a, not %a", at, (double)last.scale, (double)end.scale);
    }
    rp_recipe_fini(&r);
}

/* A run with another rule, or without one, begins with its own scale; skipped steps stay skipped. */
TEST(a_run_with_another_rule_does_not_take_the_saved_scale)
{
    struct run_record is[STEPS_OF_RUN];
    struct rp_recipe r = overflowing();
    RP_FREE char *path = rp_strdup(scratch("fixed.safetensors")), *again = rp_strdup(scratch("again.safetensors"));
    const int64_t skipped = run(is, &r, NULL, 0, SAVED_AFTER, path).skipped;
    for (int i = 0; i < 3; i++) {
        r.train_precision = i == 0 ? RP_PRECISION_fp16 : i == 1 ? RP_PRECISION_bf16 : RP_PRECISION_fp32;
        r.train_loss_scale = RP_LOSS_SCALE_fixed;
        r.train_loss_scale_initial = 0x1p7;
        const struct rp_loss_scale s = run(is, &r, path, SAVED_AFTER, SAVED_AFTER + 1, again);
        CHECK(skipped > 0 && s.skipped == skipped && !is[SAVED_AFTER].overflow, "%lld skipped, %lld before",
              (long long)s.skipped, (long long)skipped);
        CHECK(is[SAVED_AFTER].scale == (i ? 1.0f : 128.0f), "%a", (double)is[SAVED_AFTER].scale);
        CHECK(run(is, &r, again, SAVED_AFTER + 1, SAVED_AFTER + 2, NULL).skipped == skipped,
              "the updates are counted on");
    }
    rp_recipe_fini(&r);
}

/* ---- hostile files ---- */

/* Whether a file opens with another text in its header, which keeps its data. */
static int opens_with(const char *path, const struct rp_recipe *r, const char *from, const char *to, struct rp_err *err)
{
    RP_BUF file = {0};
    RP_BUF other = {0};
    RP_FREE char *hostile = rp_strdup(scratch("hostile.safetensors"));
    *err = (struct rp_err){0};
    CHECK(rp_read_file(&file, path, 1 << 26, err) == 0, "%s", err->msg);
    const char *at = memmem(file.data, file.size, from, strlen(from)), *end = (const char *)file.data + file.size;
    if (!CHECK(at, "no %s in the header", from))
        return 0;
    uint64_t header; /* little-endian, as this machine */
    memcpy(&header, file.data, sizeof header);
    header += strlen(to) - strlen(from);
    rp_buf_add(&other, &header, sizeof header);
    rp_buf_add(&other, (const char *)file.data + sizeof header, (size_t)(at - (const char *)file.data) - sizeof header);
    rp_buf_add(&other, to, strlen(to));
    rp_buf_add(&other, at + strlen(from), (size_t)(end - at) - strlen(from));
    CHECK(rp_write_file(hostile, other.data, other.size, 0666, err) == 0, "%s", err->msg);
    return rp_checkpoint_check(hostile, r, NULL, err) == 0;
}

TEST(hostile_scales_of_a_file_are_refused)
{
    static const char *const scales[] = {"0x1.8p+20 0 2 0",
                                         "-0x1p+20 0 2 0",
                                         "0x0p+0 0 2 0",
                                         "inf 0 2 0",
                                         "nan 0 2 0",
                                         "0x1p+128 0 2 0",
                                         "0x1p-150 0 2 0",
                                         "0x1p+20 -1 2 0",
                                         "0x1p+20 0 -2 0",
                                         "0x1p+20 0 2 -1",
                                         "0x1p+20 2 2 0",
                                         "0x1p+20 0 3 0",
                                         "0x1p+20 0 2 3",
                                         "0x1p+20 0 1 2",
                                         "0x1p+20 0 2",
                                         "0x1p+20 0 2 0 1",
                                         "0x1p+20 0 2 0x",
                                         "0x1p+20 0 2 99999999999999999999",
                                         "two 0 2 0",
                                         "0x1p+20,0,2,0",
                                         "0x1p+20 0.5 2 0",
                                         "",
                                         "0x1p+20 0 2 0                                          "
                                         "                                                            "};
    static const char *const skips[] = {"4", "-1", "2.0", "", "two", "1e0", "99999999999999999999",
                                        "1"}; /* the last: 2 overflowed */
    struct run_record is[3];
    struct rp_err err;
    struct rp_recipe r = overflowing();
    char honest[200], other[400];
    RP_FREE char *path = rp_strdup(scratch("honest.safetensors"));
    r.train_loss_scale_initial = 0x1p19;
    const struct rp_loss_scale s = run(is, &r, NULL, 0, 3, path);
    CHECK(s.skipped == 2 && s.good == 1 && s.bad == 2, "%lld skipped: begin with another scale", (long long)s.skipped);
    snprintf(honest, sizeof honest, "\"loss_scale\":\"%a %lld %lld %lld\"", (double)s.scale, (long long)s.good,
             (long long)s.bad, (long long)s.at_minimum);
    CHECK(opens_with(path, &r, honest, honest, &err), "%s: %s", honest, err.msg);
    CHECK(opens_with(path, &r, honest, "\"loss_scale\":\"0x1p-149 0 2 2\"", &err), "the least power of two: %s",
          err.msg);
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        snprintf(other, sizeof other, "\"loss_scale\":\"%s\"", scales[i]);
        CHECK(!opens_with(path, &r, honest, other, &err) && err.code == RP_MALFORMED && strstr(err.msg, "loss_scale"),
              "'%s': %s", scales[i], err.msg);
    }
    for (size_t i = 0; i < sizeof skips / sizeof *skips; i++) {
        snprintf(other, sizeof other, "\"skipped_steps\":\"%s\"", skips[i]);
        CHECK(!opens_with(path, &r, "\"skipped_steps\":\"2\"", other, &err) && err.code == RP_MALFORMED, "'%s': %s",
              skips[i], err.msg);
    }
    rp_recipe_fini(&r);
}

/* Weights of ResNet before its first step, against the distributions that the recipes name. */
#include "ops/philox.h"
#include "tests/unit/noise_images.h"
#include "tests/unit/tap.h"

#include <math.h>

/* Opens a small ResNet with these settings of its model. */
static void open_model(struct noise_train *n, const char *settings)
{
    char yaml[400];
    struct rp_err err;
    snprintf(yaml, sizeof yaml,
             "workload: resnet50\nmodel: {width: 16, blocks: \"1,1,1,1\", num_classes: 50, initializer_range: 0.01, "
             "%s}\ntask: {image_size: 16}\n"
             "train: {batch_size: 2}\noptimizer: {name: sgd}\n",
             settings);
    noise_train_open(n, yaml, &err);
    CHECK(n->t, "%s", err.msg);
}

struct moments {
    double mean, deviation, largest;
    size_t n;
};

static struct moments moments_of(const struct noise_train *n, const char *name, const float **data, int *index)
{
    struct moments m = {0};
    *index = n->t ? rp_tensors_find(n->t->state.weights, name) : -1;
    if (!CHECK(*index >= 0, "no weight '%s'", name))
        return m;
    const struct rp_tensor *t = &n->t->state.weights->t[*index];
    *data = rp_tensor_in(n->t->state.w, t);
    m.n = t->count;
    for (size_t i = 0; i < m.n; i++) {
        m.mean += (double)(*data)[i] / (double)m.n;
        m.deviation += (double)(*data)[i] * (double)(*data)[i] / (double)m.n;
        m.largest = fmax(m.largest, fabs((double)(*data)[i]));
    }
    m.deviation = sqrt(m.deviation);
    return m;
}

/* Cut at 2 deviations a normal distribution has 0.8796 of its deviation, and TensorFlow divides by that.
 * layer4.0.conv2: 128 x 3 x 3 x 128.
 */
TEST(convolutions_have_the_deviation_of_their_fan)
{
    static const struct {
        const char *init;
        int fan, cut;
    } cases[] = {{"fan_in", 9 * 128, 0},
                 {"truncated_fan_in", 9 * 128, 1},
                 {"fan_out", 9 * 128, 0},
                 {"truncated_fan_out", 9 * 128, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct noise_train n;
        char settings[60];
        const float *w;
        int index;
        snprintf(settings, sizeof settings, "conv_init: %s", cases[i].init);
        open_model(&n, settings);
        const struct moments m = moments_of(&n, "layer4.0.conv2.weight", &w, &index);
        const double want = sqrt(2.0 / cases[i].fan), cut = 2 * want / 0.87962566103423978;
        CHECK(fabs(m.deviation / want - 1) < 0.01 && fabs(m.mean) < 0.01 * want, "%s: %g, not %g", cases[i].init,
              m.deviation, want);
        CHECK(cases[i].cut ? m.largest <= cut * (1 + 1e-6) && m.largest > 0.999 * cut : m.largest > 1.2 * cut,
              "%s: up to %g", cases[i].init, m.largest);
        noise_train_close(&n);
    }
}

/* torch.nn.Linear: weight and bias even within +-1 / sqrt(inputs); here 512 of them. */
TEST(the_classifier_is_pytorchs)
{
    static const char *const names[] = {"fc.weight", "fc.bias"};
    struct noise_train n;
    const float *w = NULL;
    int index;
    open_model(&n, "classifier_init: uniform");
    for (int k = 0; k < 2; k++) {
        const struct moments m = moments_of(&n, names[k], &w, &index);
        const double bound = 1 / sqrt(512), want = bound / sqrt(3);
        CHECK(m.largest <= bound && m.largest > 0.9 * bound, "%s: up to %g of %g", names[k], m.largest, bound);
        CHECK(fabs(m.deviation / want - 1) < (k ? 0.3 : 0.01), "%s: %g, not %g", names[k], m.deviation, want);
        for (size_t i = 0; i < m.n; i++) { /* the draw of NUMERICS.md, in double */
            uint32_t x[4] = {(uint32_t)(i / 4), 0, RP_PHILOX_INIT, (uint32_t)index};
            rp_philox(x, (uint64_t)n.recipe.seed_init);
            const double exact = bound * ((double)(x[i % 4] >> 8) + 0.5 - (1 << 23)) / (1 << 23);
            if (!CHECK(fabs((double)w[i] - exact) < 1e-7 * bound, "%s[%zu]: %g, not %g", names[k], i, (double)w[i],
                       exact))
                break;
        }
    }
    noise_train_close(&n);
    open_model(&n, "classifier_init: normal");
    const struct moments weight = moments_of(&n, names[0], &w, &index), bias = moments_of(&n, names[1], &w, &index);
    CHECK(fabs(weight.deviation / 0.01 - 1) < 0.02 && bias.largest == 0, "%g", weight.deviation);
    noise_train_close(&n);
}

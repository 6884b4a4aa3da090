/* One step of BERT-base at batch 2 with dropout: AVX2 and AVX-512 with different numbers of threads give the same bits, down to the
 * state root over 110 million parameters and their moments. Scalar code would take minutes: tests of small models cover it. */
#include "model/bert_step.h"
#include "model/state_root.h"
#include "tests/unit/bert_fixture.h"
#include "tests/unit/tap.h"

struct outcome {
    float loss, norm;
    char root[65];
};

static int one_step(struct outcome *out, const char *isa, int threads)
{
    struct rp_err err = {0};
    struct rp_bert_config c = {.vocab = 30522, .hidden = 768, .layers = 12, .heads = 12, .inner = 3072, .positions = 512, .types = 2,
                               .pair = 2, .seq = 128, .predictions = 20, .batch = 2, .micros = 1, .moments = 2, .eps = 1e-12f,
                               .init_range = 0.02f, .hidden_dropout = 0.1, .attention_dropout = 0.1, .seed_init = 1,
                               .seed_dropout = 2};
    struct rp_recipe r = {.optimizer_learning_rate = 1e-4, .optimizer_beta1 = 0.9, .optimizer_beta2 = 0.999, .optimizer_epsilon = 1e-6,
                          .optimizer_weight_decay = 0.01, .optimizer_exclude = (char *)"LayerNorm,bias", .optimizer_clip_norm = 1,
                          .schedule_total_steps = 100, .schedule_decay = RP_DECAY_LINEAR};
    struct rp_bert_result s;
    struct rp_optim o;
    struct rp_dev *dev = fixture_device(isa, threads, c.seq, c.batch * c.seq);
    if (!dev)
        return 0;
    struct rp_bert *m = model_new(&c, dev, 17, &err);
    CHECK(m != NULL, "%s", err.msg);
    rp_optim_init(&o, &r, &m->manifest);
    CHECK(rp_bert_step(m, &o, 0, &s, &err) == 0, "%s", err.msg);
    const float *block[3] = {m->parameters, m->moment[0], m->moment[1]};
    out->loss = s.loss;
    out->norm = s.norm;
    CHECK(rp_state_root(out->root, NULL, dev, &m->manifest, block, m->leaves, &err) == 0, "%s", err.msg);
    printf("# %s, %d threads: loss %a norm %a root %s\n", isa, threads, s.loss, s.norm, out->root);
    rp_optim_fini(&o);
    rp_bert_close(m);
    fixture_close(dev);
    return 1;
}

TEST(one_step_of_base)
{
    struct outcome expected = {0}, got = {0};
    if (!one_step(&expected, "avx2", 2))
        SKIP("no AVX2 here, and scalar code would take minutes");
    CHECK(expected.loss > 10 && expected.loss < 13, "loss %g: expected about ln 30522 + ln 2", expected.loss);
    if (one_step(&got, "avx512", 1))
        CHECK(!memcmp(&got, &expected, sizeof got), "avx512 with 1 thread differs from avx2 with 2");
    if (one_step(&got, "avx512", 3))
        CHECK(!memcmp(&got, &expected, sizeof got), "avx512 with 3 threads differs from avx2 with 2");
    if (one_step(&got, "avx2", 7))
        CHECK(!memcmp(&got, &expected, sizeof got), "avx2 with 7 threads differs from 2");
}

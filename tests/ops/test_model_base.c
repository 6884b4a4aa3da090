/* One step of BERT-base with dropout: every instruction set and number of threads gives the same bits, down to the state root over
 * 110 million parameters and their moments. Scalar code is held against the others on one sequence of 16 tokens, which takes it
 * seconds; two sequences of 128 would take it minutes. */
#include "model/bert_step.h"
#include "model/state_root.h"
#include "tests/unit/bert_fixture.h"
#include "tests/unit/tap.h"

struct outcome {
    float loss, norm;
    char root[65];
};

/* Of `batch` sequences; 0: this machine lacks the instruction set. */
static int one_step(struct outcome *out, const char *isa, int threads, int batch, int seq, int predictions)
{
    struct rp_err err = {0};
    struct rp_bert_config c = {.vocab = 30522, .hidden = 768, .layers = 12, .heads = 12, .inner = 3072, .positions = 512, .types = 2,
                               .pair = 2, .seq = seq, .predictions = predictions, .batch = batch, .micros = 1, .moments = 2,
                               .eps = 1e-12f, .init_range = 0.02f, .hidden_dropout = 0.1, .attention_dropout = 0.1, .seed_init = 1,
                               .seed_dropout = 2};
    struct rp_recipe r = {.optimizer_learning_rate = 1e-4, .optimizer_beta1 = 0.9, .optimizer_beta2 = 0.999, .optimizer_epsilon = 1e-6,
                          .optimizer_weight_decay = 0.01, .optimizer_exclude = (char *)"LayerNorm,bias", .optimizer_clip_norm = 1,
                          .schedule_total_steps = 100, .schedule_decay = RP_DECAY_linear};
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

static const struct {
    const char *isa;
    int threads;
} small[] = {{"scalar", 2}, {"scalar", 7}, {"avx2", 3}, {"avx512", 1}}, whole[] = {{"avx2", 2}, {"avx2", 7}, {"avx512", 1}, {"avx512", 3}};
#define COUNT(list) (int)(sizeof(list) / sizeof *(list))

TEST(scalar_avx2_and_avx512_agree_on_base)
{
    struct outcome first = {0}, got = {0};
    for (int i = 0; i < COUNT(small); i++) {
        if (!one_step(i ? &got : &first, small[i].isa, small[i].threads, 1, 16, 3))
            continue;
        CHECK(i > 0 || (first.loss > 10 && first.loss < 13), "loss %g: expected about ln 30522 + ln 2", first.loss);
        CHECK(i == 0 || !memcmp(&got, &first, sizeof got), "%s with %d threads differs from scalar with 2", small[i].isa, small[i].threads);
    }
}

TEST(avx2_and_avx512_agree_on_base_at_full_length)
{
    struct outcome first = {0}, got = {0};
    if (!one_step(&first, whole[0].isa, whole[0].threads, 2, 128, 20))
        SKIP("no AVX2 here, and scalar code would take minutes");
    CHECK(first.loss > 10 && first.loss < 13, "loss %g: expected about ln 30522 + ln 2", first.loss);
    for (int i = 1; i < COUNT(whole); i++)
        if (one_step(&got, whole[i].isa, whole[i].threads, 2, 128, 20))
            CHECK(!memcmp(&got, &first, sizeof got), "%s with %d threads differs from avx2 with 2", whole[i].isa, whole[i].threads);
}

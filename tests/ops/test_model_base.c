/* One step of BERT-base with dropout: every instruction set and number of threads gives the same bits, down to the state root over
 * 110 million parameters and their moments. Scalar code is held against the others on one sequence of 16 tokens, which takes it
 * seconds; two sequences of 128 would take it minutes. */
#include "tests/unit/train_fixture.h"
#include "tests/unit/tap.h"

struct outcome {
    float loss, norm;
    char root[65];
};

/* Of `batch` sequences; 0: this machine lacks the instruction set. */
static int one_step(struct outcome *out, const char *isa, int threads, int batch, int seq, int predictions)
{
    static const char yaml[] = "workload: bert\n"; /* BERT-base, by the defaults of the keys */
    struct rp_err err = {0};
    struct rp_recipe r;
    struct rp_step_result s;
    struct fixture f;
    CHECK(rp_recipe_parse(&r, yaml, sizeof yaml - 1, "base.yaml", NULL, NULL, 0, &err) == 0, "%s", err.msg);
    r.train_batch_size = batch;
    r.task_seq_length = seq;
    r.task_max_predictions = predictions;
    int opened = fixture_open(&f, &r, isa, threads, 17, NULL, &err) == 0;
    CHECK(opened || !f.dev, "%s", err.msg);
    if (opened) {
        CHECK(rp_train_step(f.t, 0, &s, &err) == 0, "%s", err.msg);
        out->loss = s.loss;
        out->norm = s.grad_norm;
        CHECK(rp_train_root(f.t, out->root, NULL, &err) == 0, "%s", err.msg);
        printf("# %s, %d threads: loss %a norm %a root %s\n", isa, threads, s.loss, s.grad_norm, out->root);
    }
    fixture_fini(&f);
    rp_recipe_fini(&r);
    return opened;
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

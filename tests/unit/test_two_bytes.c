/* Training in mixed precision on a device that keeps 16 bits of stored tensors, as GPUs do: the bits of one that keeps
 * 32. */
/* exhaustive */
#include "tests/unit/mixed_trials.h"

/* A device that keeps 16 bits of them: addresses, sizes and copies follow from the bytes of an element. */
TEST(stored_tensors_of_two_bytes_have_the_bits_of_those_of_four)
{
    for (int m = 0; m < MODELS; m++)
        for (int c = m % 2; c < CONTRACTS; c += tap_long() ? 2 : 3) {
            struct trial one = trial_of((enum model)m, recipe_of((enum model)m, &contracts[c], 2), 2), other = one;
            run_one(&one, "reference", 1, model_names[m]);
            run_one(&other, "narrow", 1, model_names[m]);
            compare(&one.trace[0], &other, (struct rp_degrees){1, 1, 1}, model_names[m]);
            traces_fini(one.trace, 1);
            traces_fini(other.trace, 1);
            trial_fini(&one);
        }
}

/* What they exchange has 2 bytes an element, too. */
TEST(ranks_whose_stored_tensors_have_two_bytes_compute_the_bits_of_one)
{
    static const struct trial_device narrow = {"narrow", 1};
    static const struct rp_degrees by[] = {{1, 2, 1}, {1, 1, 2}, {2, 2, 1}};
    for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
        struct rp_recipe r = recipe_of(GPT, &contracts[i], 2);
        struct rp_err err;
        r.train_recompute = (int[]){RP_RECOMPUTE_none, RP_RECOMPUTE_full, RP_RECOMPUTE_selective}[i];
        struct trial one = trial_of(GPT, r, 3), many = one;
        run_one(&one, "avx2", 1, "one rank");
        many.device = &narrow;
        many.devices = 1;
        CHECK(trial_run(&many, by[i], NULL, &err) == 0, "layout %zu: %s", i, err.msg);
        compare(&one.trace[0], &many, by[i], "two bytes");
        traces_fini(many.trace, by[i].data * by[i].tensor * by[i].pipeline);
        traces_fini(one.trace, 1);
        trial_fini(&one);
    }
}

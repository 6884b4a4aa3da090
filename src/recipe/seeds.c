/* What a challenge sets: seeds that were unknown before its nonce, and the state roots that divide the run into
 * parts. */
#include "base/hash.h"
#include "recipe/keys.h"

#include <stdio.h>
#include <string.h>

#define BITS 52  /* of a seed: whole numbers below 2^53 */
#define NUMPY_BITS 31

/* The leading bits of a digest. */
static uint64_t derive_seed(const char *nonce, const char *signer, const char *recipe, const char *key, int bits)
{
    RP_BUF text = {0};
    rp_buf_printf(&text, "repro-seed/1\n%s\n%s\n%s\n%s\n", nonce, signer, recipe, key);
    return rp_sha256_word(text.data, text.size) >> (64 - bits);
}

static int set_number(struct rp_recipe *r, const char *key, uint64_t value, struct rp_err *err)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    return rp_recipe_set(r, key, text, RP_FROM_CHALLENGE, err);
}

int rp_recipe_challenge(struct rp_recipe *r, const char *nonce, int64_t parts, const char *signer, struct rp_err *err)
{
    static const char roots[] = "evidence.state_root_every";
    int64_t steps = r->measure_warmup_steps + r->measure_repeats * r->measure_timed_steps, every = steps / parts;
    for (int k = 0; k < RP_KEY_COUNT; k++) {
        const char *key = rp_key_at(k)->name;
        const int is_seed = strncmp(key, "seed.", strlen("seed.")) == 0;
        if ((!is_seed && strcmp(key, roots) != 0) || !rp_key_applies(r, k))
            continue;
        if (r->origin[k] == RP_FROM_COMMAND_LINE)
            return rp_fail(err, RP_USAGE, "%s is set by the challenge: remove it from the command line", key);
        int bits = k == RP_KEY_seed_data && r->data_order != RP_DATA_ORDER_philox ? NUMPY_BITS : BITS;
        if (set_number(r, key,
                       is_seed ? derive_seed(nonce, signer, r->sha256, key, bits) : (uint64_t)(every ? every : 1),
                       err) < 0)
            return -1;
    }
    return 0;
}

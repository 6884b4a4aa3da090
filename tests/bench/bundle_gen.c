/* Writes an honest bundle of a chosen size for tests/bench/verify.sh: nothing was trained, all that verify recomputes
 * agrees.
 * usage: bundle_gen FILE records N     N steps, each with losses, times and a state root as random as real ones
 *        bundle_gen FILE bytes N       a few steps, and N MiB that do not compress (env/node0.hwloc.xml) */
#define TAP_NO_MAIN
#include "tests/unit/bundle_fixture.h"

#include "base/clock.h"

static uint64_t seed = 1;

static uint64_t draw(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static void step_line(struct rp_buf *out, int64_t step, int64_t start, int64_t ns)
{
    char loss[32], norm[32], root[65];
    rp_float_hex(loss, 6.1f + (float)(draw() % 4096) / 16384 + (float)(draw() % 512) / 4194304);
    rp_float_hex(norm, 1 + (float)(draw() % 8388608) / 8388608);
    for (int i = 0; i < 64; i += 16)
        snprintf(root + i, 17, "%016llx", (unsigned long long)draw());
    rp_buf_printf(
        out,
        "{\"counters\":{\"padded_tokens\":64,\"tokens\":%d},\"end_ns\":%lld,\"grad_norm\":\"%s\",\"input_ns\":%d,"
        "\"learning_rate\":%.17g,\"loss\":\"%s\",\"loss_parts\":{\"mlm\":\"%s\",\"nsp\":\"0x0p+0\"},\"phase\":"
        "\"timed\",\"rank\":0,\"repeat\":0,"
        "\"root_ns\":%d,\"samples\":4,\"start_ns\":%lld,\"state_root\":\"%s\",\"step\":%lld}\n",
        50 + (int)(draw() % 14), (long long)(start + ns), norm, (int)(draw() % 32768), fx_rate((int)step), loss, loss,
        (int)(900000 + draw() % 65536), (long long)start, root, (long long)step);
}

static int64_t records(struct rp_buf *out, int64_t n)
{
    int64_t now = 5000000000;
    rp_buf_puts(out,
                "{\"phase\":\"init\",\"rank\":0,\"root_ns\":1000000,\"state_root\":\"" FX_ROOT "\",\"step\":-1}\n");
    for (int64_t i = 0; i < n; i++) {
        int64_t ns = 100000000 + (int64_t)(draw() % 4194304);
        step_line(out, i, now, ns);
        now += ns + 1000000 + (int64_t)(draw() % 65536);
    }
    return now / 1000000000;
}

/* The run took that long: everything that says when it ended. */
static void stretch(struct fx *x, int64_t seconds)
{
    char when[32];
    rp_rfc3339(when, FX_START + (uint64_t)seconds * 1000000000);
    json_object_set_new(x->facts, "elapsed_s", json_real((double)seconds));
    json_object_set_new(x->facts, "ended_at", json_string(when));
    json_object_set_new(x->after, "captured_at", json_string(when));
    set_path(x->facts, "rank/0/phases_s/timed", json_real((double)seconds - 1));
}

static void write_bundle(const struct fx *x, const struct rp_buf *extra, const char *path)
{
    struct rp_err err;
    struct rp_bundle b;
    RP_BUF bytes = {0};
    struct rp_key_pair *k = fx_key("signer");
    fx_members(&b, x);
    if (extra->size)
        fx_add(&b, "env/node0.hwloc.xml", extra->data, extra->size);
    if (rp_bundle_seal(&b, k, &bytes, &err) < 0 || rp_write_file(path, bytes.data, bytes.size, 0644, &err) < 0) {
        fprintf(stderr, "bundle_gen: %s\n", err.msg);
        exit(1);
    }
    rp_bundle_fini(&b);
    rp_key_free(k);
}

int main(int argc, char **argv)
{
    struct fx x;
    struct rp_err err = {0};
    RP_BUF extra = {0};
    int64_t n = argc == 4 ? atoll(argv[3]) : 0;
    int lines = argc == 4 && strcmp(argv[2], "records") == 0;
    if (n < 1 || (!lines && strcmp(argv[2], "bytes") != 0)) {
        fprintf(stderr, "usage: bundle_gen FILE records|bytes N\n");
        return 2;
    }
    fx_init(&x);
    if (lines) {
        RP_FREE char *steps = rp_asprintf("measure.timed_steps=%lld", (long long)n);
        const char *const set[] = {"measure.warmup_steps=0", steps, "measure.repeats=1", "evidence.state_root_every=1"};
        rp_recipe_fini(&x.recipe);
        rp_buf_fini(&x.steps);
        int64_t seconds = records(&x.steps, n);
        if (rp_recipe_parse(&x.recipe, fx_recipe, sizeof fx_recipe - 1, "tiny.yaml", "cpu", set, 4, &err) < 0 ||
            fx_documents(&x, "complete", NULL, &err) < 0) {
            fprintf(stderr, "bundle_gen: %s\n", err.msg);
            return 1;
        }
        stretch(&x, seconds);
    }
    for (int64_t i = 0; !lines && i < n << 17; i++) {
        uint64_t word = draw();
        rp_buf_add(&extra, &word, sizeof word);
    }
    write_bundle(&x, &extra, argv[1]);
    fx_fini(&x);
    return atomic_load(&tap_failures) != 0;
}

/* The bundle of the honest run of run_fixture.h: its members, keys, and sealing. */
#pragma once

#include "bundle/bundle.h"
#include "bundle/source.h"
#include "sign/key.h"
#include "verify/verify.h"
#include "tests/unit/run_fixture.h"

#include <sys/mman.h>
#include <sys/stat.h>

static __attribute__((unused)) void fx_add(struct rp_bundle *b, const char *name, const void *data, size_t size)
{
    struct rp_err err;
    int failed = rp_bundle_add(b, name, data, size, &err);
    CHECK(failed == 0, "%s: %s", name, err.msg);
}

static __attribute__((unused)) void fx_add_json(struct rp_bundle *b, const char *name, const json_t *j)
{
    RP_BUF text = {0};
    rp_json_write(&text, j);
    fx_add(b, name, text.data, text.size);
}

/* Everything that is there before sealing. */
static __attribute__((unused)) void fx_members(struct rp_bundle *b, const struct fx *x)
{
    *b = (struct rp_bundle){0};
    fx_add_json(b, "facts.json", x->facts);
    fx_add_json(b, "run.json", x->run);
    fx_add(b, "recipe.yaml", x->recipe.source.data, x->recipe.source.size);
    if (x->challenge.size)
        fx_add(b, RP_CHALLENGE_MEMBER, x->challenge.data, x->challenge.size);
    for (int i = 0; i < fx_nodes(x); i++)
        for (int after = 0; after < 2; after++)
            if (fx_capture_of(x, i, after))
                fx_add_json(b, RP_OF_NODE(i, after ? ".after.json" : ".before.json"), fx_capture_of(x, i, after));
    for (int i = 0; i < fx_ranks(x); i++) {
        const struct rp_buf *steps = fx_steps_of(x, i), *telemetry = fx_telemetry_of(x, i);
        fx_add(b, RP_OF_RANK(i, ".jsonl"), steps->data, steps->size);
        if (telemetry->size)
            fx_add(b, RP_OF_RANK(i, ".telemetry.jsonl"), telemetry->data, telemetry->size);
    }
}

/* These bytes as the file of a bundle. */
static __attribute__((unused)) int fx_open(struct rp_bundle *b, const void *data, size_t size, struct rp_err *err)
{
    static int fd = -1;
    char path[64];
    if (fd < 0 && (fd = memfd_create("bundle", MFD_CLOEXEC)) < 0)
        abort();
    if (ftruncate(fd, 0) < 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    *err = (struct rp_err){0};
    return rp_bundle_open(b, path, err);
}

static __attribute__((unused)) void fx_key_free(struct rp_key_pair **k)
{
    rp_key_free(*k);
}

#define FX_KEY __attribute__((cleanup(fx_key_free))) struct rp_key_pair /* freed where its block ends */

static __attribute__((unused)) struct rp_key_pair *fx_key(const char *name)
{
    struct rp_err err;
    RP_FREE char *path = fx_path(name);
    struct stat st;
    int failed = stat(path, &st) < 0 && rp_key_create(path, NULL, &err) < 0;
    CHECK(!failed, "key: %s", err.msg);
    struct rp_key_pair *k = rp_key_load(path, -1, &err);
    CHECK(k, "key: %s", err.msg);
    return k;
}

/* Seal what x says now with a key of that name; the bundle is at fx_path(file). */
static __attribute__((unused)) void fx_seal(const struct fx *x, const char *key, const char *file)
{
    struct rp_err err;
    struct rp_bundle b;
    RP_FREE char *path = fx_path(file);
    struct rp_key_pair *k = fx_key(key);
    fx_members(&b, x);
    RP_BUF bytes = {0};
    int failed = rp_bundle_seal(&b, k, &bytes, &err) < 0 || rp_write_file(path, bytes.data, bytes.size, 0644, &err) < 0;
    CHECK(failed == 0, "seal: %s", err.msg);
    rp_bundle_fini(&b);
    rp_key_free(k);
}

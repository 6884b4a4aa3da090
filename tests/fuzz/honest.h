/* For fuzz targets of bundles: an honest one of the unit tests' fixture, a verdict on it, and what has to hold of any
 * text about it.
 *
 * What:    the fixture with telemetry, so a GPU's; a packed bundle as a file without a name on any disk.
 * Flow:    honest_fx() -> rp_bundle_seal() -> honest_file() -> rp_verify().
 * Owner:   the caller owns what it gets; keys of the fixture are removed with the scratch directory.
 * Extend:  include from one file per program, as the fixture.
 */
#pragma once

#define TAP_NO_MAIN
#include "tests/unit/attack.h"

#include "base/text.h"

#include <sys/mman.h>

#define MUST(holds) must((holds), __FILE__, __LINE__, #holds)
static void must(int holds, const char *file, int line, const char *text)
{
    if (holds)
        return;
    fprintf(stderr, "%s:%d: %s\n", file, line, text);
    abort();
}

/* Nothing that a terminal obeys; lines: several of them. */
static __attribute__((unused)) void printable(const char *text, int lines)
{
    size_t n = strlen(text), step;
    for (size_t i = 0; i < n; i += step) {
        unsigned c = 0;
        step = rp_utf8(text + i, n - i, &c);
        MUST(step && ((!rp_is_control(c) && !rp_is_invisible(c)) || (lines && c == '\n')));
    }
}

static __attribute__((unused)) void honest_fx(struct fx *x)
{
    struct rp_err err;
    fx_init(x);
    for (int i = 0; i < 8; i++)
        rp_buf_printf(
            &x->telemetry,
            "{\"clock_sm_hz\":1500000000,\"n\":%d,\"ns\":%lld,\"power_mw\":%d,\"temperature_c\":40,\"throttle\":%s}\n",
            i, 4900000000 + i * 100000007ll, 250000 + i, i % 3 ? "[]" : "[\"sw_power_cap\"]");
    x->backend = "cuda";
    x->device = "gpu0 Tesla V100-SXM2-16GB sm_70";
    MUST(fx_documents(x, "complete", NULL, &err) == 0);
}

static __attribute__((unused)) void honest_seal(struct rp_bundle *b, const struct fx *x, const struct rp_key_pair *key)
{
    struct rp_err err;
    RP_BUF file = {0};
    fx_members(b, x);
    MUST(rp_bundle_seal(b, key, &file, &err) == 0);
}

/* A descriptor, and its path. */
static __attribute__((unused)) int honest_file(const struct rp_bundle *b, char path[64])
{
    struct rp_err err;
    RP_BUF tar = {0}, file = {0};
    for (int i = 0; i < b->n; i++)
        rp_tar_add(&tar, b->member[i].name, b->member[i].bytes.data, b->member[i].bytes.size);
    rp_tar_end(&tar);
    int fd = memfd_create("bundle", MFD_CLOEXEC);
    MUST(rp_zst_pack(&file, tar.data, tar.size, &err) == 0 && fd >= 0 && rp_write_all(fd, file.data, file.size) == 0);
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    return fd;
}

/* This very program: its bytes by digest, and the record its build left in it. */
#include "capture/probe.h"

#include "base/build.h"
#include "base/hash.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static const char record[] = "build record";

static void digest(struct rp_probe *p)
{
    static const char path[] = "/proc/self/exe";
    unsigned char block[1 << 16], sum[RP_SHA256_SIZE];
    char hex[RP_SHA256_HEX];
    struct rp_sha256 h;
    enum rp_state state;
    const char *detail = NULL;
    int64_t size = 0;
    RP_FD fd = rp_probe_open(p, path, &state, &detail);
    if (state != RP_STATE_OK) {
        rp_put(p->out, "sha256", state, NULL, path, NULL, state == RP_STATE_ERROR ? detail : NULL);
        rp_put(p->out, "size", state, NULL, path, "B", state == RP_STATE_ERROR ? detail : NULL);
        return;
    }
    rp_sha256_init(&h);
    for (;;) {
        ssize_t n = read(fd, block, sizeof block);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            rp_put(p->out, "sha256", RP_STATE_ERROR, NULL, path, NULL, "cannot be read");
            rp_put(p->out, "size", RP_STATE_ERROR, NULL, path, "B", "cannot be read");
            return;
        }
        if (n == 0)
            break;
        rp_sha256_update(&h, block, (size_t)n);
        size += n;
    }
    rp_sha256_final(&h, sum);
    rp_hex(hex, sum, sizeof sum);
    rp_put_str(p->out, "sha256", hex, path);
    rp_put_int(p->out, "size", size, path, "B");
}

/* What is linked in: a list of "NAME VERSION SHA256 FILE" and "fell-forward: ..." lines. */
static void dependencies(struct rp_probe *p, const char *lines)
{
    json_t *list = json_array();
    while (*lines) {
        size_t n = strcspn(lines, "\n");
        if (n)
            json_array_append_new(list, json_stringn(lines, n));
        lines += n + (lines[n] == '\n');
    }
    rp_put(p->out, "dependencies", RP_STATE_OK, list, record, NULL, NULL);
}

void rp_probe_program(struct rp_probe *p)
{
    const struct rp_build *b = rp_build_record();
    rp_put_str(p->out, "version", b->version, record);
    rp_put_str(p->out, "commit", b->commit, record);
    rp_put_str(p->out, "source_state", b->dirty, record);
    rp_put_str(p->out, "compiler", b->compiler, record);
    rp_put_str(p->out, "flags", b->flags, record);
    dependencies(p, b->deps);
    digest(p);
}

/* This very program: its bytes by digest, and the record its build left in it. */
#include "capture/probe.h"

#include "base/hash.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

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

void rp_probe_program(struct rp_probe *p)
{
    digest(p);
}

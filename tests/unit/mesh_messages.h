/* Random messages between ranks, which all of them derive from one seed.
 *
 * What:    plan_round() exchanges them within a group and compares what has arrived.
 * Flow:    struct plan, number of the round -> messages -> bytes compared.
 */
#pragma once

#include "base/buf.h"
#include "comm/comm.h"
#include "tests/unit/mesh_fixture.h"

#include <stdlib.h>
#include <string.h>

#ifdef __SANITIZE_THREAD__
#define LESS 8 /* every access takes that much longer */
#else
#define LESS 1
#endif

struct plan {
    unsigned seed;
    int rounds;
    size_t most; /* bytes of a message */
};

static unsigned mix(unsigned a, unsigned b)
{
    unsigned x = a * 2654435761u ^ (b + 0x9e3779b9u);
    x ^= x >> 15;
    x *= 2246822519u;
    return x ^ x >> 13;
}

/* Sizes around those where something changes: nothing, heads, pieces, rings, records. */
static size_t plan_size(const struct plan *p, unsigned r)
{
    static const size_t edges[] = {0, 1, 31, 4096, 8192, 8193, 16384, 65536};
    const size_t size = r % 3 ? edges[r / 3 % 8] + r / 32 % 3 : r / 3 % p->most;
    return size < p->most ? size : p->most;
}

/* Messages between all members of a group; all ranks derive the same plan from the seed. */
static int plan_round(struct rp_comm *c, const struct plan *p, int round, enum rp_group g, struct rp_err *err)
{
    const unsigned seed = mix(p->seed, (unsigned)round);
    const int n = c->size[g], own = c->rank[g];
    struct rp_transfer *t = rp_alloc(8 * (size_t)n * sizeof *t);
    int count = 0, bad = 0;
    for (int peer = 0; peer < n; peer++)
        for (int send = 0; send < 2 && peer != own; send++) {
            const int from = send ? own : peer, to = send ? peer : own;
            const unsigned pair = mix(mix(seed, (unsigned)from), (unsigned)to);
            for (unsigned k = 0; k < pair % 4; k++) {
                const unsigned message = mix(pair, k);
                const size_t size = plan_size(p, message);
                unsigned char *data = rp_alloc(size + 1);
                if (send)
                    mesh_fill(data, size, message);
                t[count++] = (struct rp_transfer){peer, send, data, size};
            }
        }
    const int failed = rp_comm_exchange(c, g, t, count, err);
    count = 0;
    for (int peer = 0; peer < n; peer++)
        for (int send = 0; send < 2 && peer != own; send++) {
            const unsigned pair = mix(mix(seed, (unsigned)(send ? own : peer)), (unsigned)(send ? peer : own));
            for (unsigned k = 0; k < pair % 4; k++, count++) {
                unsigned char *expected = rp_alloc(t[count].bytes + 1);
                mesh_fill(expected, t[count].bytes, mix(pair, k));
                bad |= !failed && memcmp(expected, t[count].data, t[count].bytes) != 0;
                free(expected);
                free(t[count].data);
            }
        }
    free(t);
    return failed ? -1 : bad ? rp_fail(err, RP_MISMATCH, "bytes differ in round %d", round) : 0;
}

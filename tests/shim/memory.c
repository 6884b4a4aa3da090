/* The GPU's memory: blocks, and which address is in one. */
#include "tests/shim/run.h"

#include <stdlib.h>

#define APART 256 /* before a block: its size, and nothing that a kernel may touch */

static struct range {
    uintptr_t begin, end;
    int host;
} *blocks;
static size_t held, room;
uint32_t shim_generation = 1;

void *shim_take(size_t bytes, int host)
{
    unsigned char *p = aligned_alloc(APART, 2 * APART + (bytes + APART - 1) / APART * APART);
    if (held == room) {
        room = room ? 2 * room : 64;
        blocks = realloc(blocks, room * sizeof *blocks);
    }
    if (!p || !blocks)
        return NULL;
    memcpy(p, &bytes, sizeof bytes);
    memset(p + APART, 0xa5, bytes);
    shim_generation++;
    blocks[held++] = (struct range){(uintptr_t)(p + APART), (uintptr_t)(p + APART) + bytes, host};
    return p + APART;
}

size_t shim_give(void *data)
{
    size_t bytes, i = 0;
    memcpy(&bytes, (unsigned char *)data - APART, sizeof bytes);
    while (blocks[i].begin != (uintptr_t)data)
        i++;
    shim_generation++;
    blocks[i] = blocks[--held];
    free((unsigned char *)data - APART);
    return bytes;
}

enum shim_where shim_where(const void *data, size_t bytes)
{
    static size_t last; /* mostly it is the same one again */
    uintptr_t at = (uintptr_t)data;
    for (size_t i = 0; i <= held; i++) {
        size_t k = i ? i - 1 : last;
        if (k < held && at >= blocks[k].begin && at + bytes <= blocks[k].end) {
            last = k;
            return blocks[k].host ? SHIM_PAGE_LOCKED : SHIM_DEVICE;
        }
    }
    return SHIM_ELSEWHERE;
}

int shim_range(uintptr_t at, uintptr_t *begin, uintptr_t *end)
{
    for (size_t k = 0; k < held; k++)
        if (at >= blocks[k].begin && at < blocks[k].end) {
            *begin = blocks[k].begin;
            *end = blocks[k].end;
            return 1;
        }
    return 0;
}

#include "base/json_memory.h"

#include "base/buf.h"
#include "base/err.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

#define STEP 16          /* sizes are rounded up to a multiple of it, which is also their alignment */
#define LARGEST 512
#define CHUNK (64u << 10) /* taken from malloc() at once */

/* In front of every block; blocks of more than LARGEST bytes are in list 0 and come from malloc(). */
struct json_block {
    uintptr_t mark; /* its own address, mixed with `secret`, and inverted while it is free */
    uint32_t list, unused;
    struct json_block *next[]; /* of a free block, in its own bytes */
};
_Static_assert(sizeof(struct json_block) == STEP, "the bytes after it are aligned");

static uintptr_t secret;
static _Thread_local struct {
    struct json_block *free[LARGEST / STEP + 1];
    char *at;
    size_t left; /* of the last chunk */
} here;

static uintptr_t mark_of(const struct json_block *b)
{
    return (uintptr_t)b ^ secret;
}

/* A piece of a chunk; the rest of the chunk before it stays unused. */
static struct json_block *cut_block(size_t size)
{
    if (here.left < size) {
        here.at = malloc(CHUNK);
        if (!here.at)
            rp_out_of_memory(CHUNK);
        here.left = CHUNK;
    }
    struct json_block *b = (void *)here.at;
    here.at += size;
    here.left -= size;
    return b;
}

void *rp_json_block(size_t size)
{
    uint32_t list = size > LARGEST ? 0 : (uint32_t)((size + STEP - 1) / STEP + !size);
    struct json_block *b = here.free[list];
    if (!list)
        b = size < SIZE_MAX - sizeof *b ? malloc(sizeof *b + size) : NULL;
    else if (b) {
        RP_BUG_IF(b->mark != ~mark_of(b) || b->list != list);
        here.free[list] = b->next[0];
    } else
        b = cut_block(sizeof *b + list * STEP);
    if (!b)
        rp_out_of_memory(size);
    b->mark = mark_of(b);
    b->list = list;
    return b + 1;
}

void rp_json_block_free(void *p)
{
    if (!p)
        return;
    struct json_block *b = (struct json_block *)p - 1;
    RP_BUG_IF(b->mark != mark_of(b) || b->list > LARGEST / STEP);
    b->mark = ~b->mark;
    if (!b->list) {
        free(b);
        return;
    }
    b->next[0] = here.free[b->list];
    here.free[b->list] = b;
}

void rp_json_memory(void)
{
    if (!secret && getrandom(&secret, sizeof secret, GRND_NONBLOCK) != (ssize_t)sizeof secret)
        secret = (uintptr_t)&secret; /* no random numbers yet at boot; the load address is random too */
    json_set_alloc_funcs(rp_json_block, rp_json_block_free);
}

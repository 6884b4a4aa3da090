#include "base/json_memory.h"

#include "base/err.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

#define STEP 16          /* sizes are rounded up to a multiple of it, which is also their alignment */
#define LARGEST 512
#define CHUNK (64u << 10) /* taken from malloc() at once */

/* In front of every block; those of more than LARGEST bytes have list 0 and stand alone. */
struct block {
    uintptr_t mark; /* its own address, mixed with `secret`, and inverted while it is free */
    uint32_t list, unused;
    struct block *next[]; /* of a free one, where its bytes are */
};
_Static_assert(sizeof(struct block) == STEP, "the bytes behind it are aligned");

static uintptr_t secret;
static _Thread_local struct {
    struct block *free[LARGEST / STEP + 1];
    char *at;
    size_t left; /* of the last chunk */
} here;

static uintptr_t mark_of(const struct block *b)
{
    return (uintptr_t)b ^ secret;
}

/* A piece of a chunk; what is left of the chunk before is not used. */
static struct block *cut(size_t size)
{
    if (here.left < size) {
        here.at = malloc(CHUNK);
        here.left = here.at ? CHUNK : 0;
        if (!here.at)
            return NULL;
    }
    struct block *b = (void *)here.at;
    here.at += size;
    here.left -= size;
    return b;
}

void *rp_json_block(size_t size)
{
    uint32_t list = size > LARGEST ? 0 : (uint32_t)((size + STEP - 1) / STEP + !size);
    struct block *b = here.free[list];
    if (!list)
        b = size < SIZE_MAX - sizeof *b ? malloc(sizeof *b + size) : NULL;
    else if (b) {
        RP_BUG_IF(b->mark != ~mark_of(b) || b->list != list);
        here.free[list] = b->next[0];
    } else
        b = cut(sizeof *b + list * STEP);
    if (!b)
        return NULL;
    b->mark = mark_of(b);
    b->list = list;
    return b + 1;
}

void rp_json_block_free(void *p)
{
    if (!p)
        return;
    struct block *b = (struct block *)p - 1;
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
        secret = (uintptr_t)&secret; /* where the kernel has no numbers yet; where the program lies is drawn too */
    json_set_alloc_funcs(rp_json_block, rp_json_block_free);
}

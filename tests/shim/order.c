/* What the executors of kernels share, that of the sources (shim.c) and those of compiled code (tests/simt): random
 * numbers, the order in which blocks start, and which launches a GPU refuses. */
#include "tests/shim/run.h"

#include <stdlib.h>

uint64_t shim_random_state;

uint32_t shim_random(void)
{
    shim_random_state = shim_random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(shim_random_state >> 33);
}

void shim_arrange(uint32_t *order, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        order[i] = shim_options.order == SHIM_REVERSE ? n - 1 - i : i;
    for (uint32_t i = n; shim_options.order == SHIM_SCRAMBLED && i > 1; i--) {
        uint32_t j = shim_random() % i, x = order[i - 1];
        order[i - 1] = order[j];
        order[j] = x;
    }
}

uint32_t *shim_arrange_blocks(struct shim_dim grid, uint32_t *blocks)
{
    uint32_t all = grid.x * grid.y * grid.z,
             left_out = shim_options.last && shim_options.last < all ? all - shim_options.last : 0;
    uint32_t *start = malloc((*blocks = all - left_out) * sizeof *start);
    if (!start)
        abort();
    shim_arrange(start, *blocks);
    for (uint32_t i = 0; i < *blocks; i++)
        start[i] += left_out;
    return start;
}

const char *shim_refuse_launch(struct shim_dim grid, struct shim_dim block, unsigned threads, size_t shared)
{
    if (!grid.x || !grid.y || !grid.z || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535 ||
        (uint64_t)grid.x * grid.y * grid.z > 0xffffffffu)
        return "the grid is empty or too large";
    if (block.x * block.y * block.z != threads)
        return "the block has another size than the kernel was compiled for";
    if (shared > SHIM_SHARED_MAX)
        return "more shared memory than any GPU has for a block";
    return NULL;
}

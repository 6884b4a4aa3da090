/* Stands for the compiled device code where the driver is the test's own: it executes the same kernels by their
 * names. */
#include "backend/cuda/inner.h"

/* A zstd frame with its size, 16, and one block as it is. */
static const unsigned char frame[] = "\x28\xb5\x2f\xfd\x20\x10\x81\0\0\177ELF of the shim";
static const struct rp_cuda_part parts[] = {{"one", frame, sizeof frame - 1, 16}, {"two", frame, sizeof frame - 1, 16}};

const struct rp_cuda_image rp_cuda_images[] = {{70, 0, parts, 2, "", 0},  {75, 0, parts, 2, "", 0},
                                               {80, 0, parts, 2, "", 0},  {90, 0, parts, 2, "", 0},
                                               {100, 1, parts, 2, "", 0}, {90, 0, parts, 1, "", 1}};
const int rp_cuda_image_count = 6;

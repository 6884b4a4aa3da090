/* What the tests' driver writes into a CUtensorMap: a matrix of numbers of 16 bits, and the box of it that one copy
 * takes. The format of NVIDIA's driver is not public; only the executors of tests/simt read this one.
 */
#pragma once

#include <stdint.h>

#define SHIM_TENSOR_MAP 0x70616d5f70725f31u

struct shim_tensor_map {
    uint64_t magic, from, numbers[2], pitch; /* numbers: of a line, lines; pitch: bytes from a line to the next */
    uint32_t box[2];                         /* the same of the box */
};

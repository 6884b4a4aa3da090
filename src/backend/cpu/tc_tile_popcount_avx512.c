/* Products as a tensor core sums them, for CPUs that count bits in vectors: AVX512_VPOPCNTDQ, since Ice Lake and Zen
 * 4. */
#define KERNEL rp_tc_avx512_popcount
#include "backend/cpu/tc_tile.inc.h"

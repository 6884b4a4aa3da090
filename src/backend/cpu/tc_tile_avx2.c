/* Products as a tensor core sums them, of this instruction set. */
#define KERNEL rp_tc_avx2
#include "backend/cpu/tc_tile.inc.h"

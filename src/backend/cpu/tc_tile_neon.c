/* Products as a tensor core sums them, of this instruction set. */
#define KERNEL rp_tc_neon
#include "backend/cpu/tc_tile.inc.h"

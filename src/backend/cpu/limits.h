/* What the machine and the container let this process use: bytes of memory and CPUs.
 *
 * What:    MemAvailable, RLIMIT_AS, memory and CPU limits of control groups (versions 1 and 2, all parents), CPU
 *          affinity.
 * Flow:    files under root ("" for the real ones, a recorded tree in tests) -> a number.
 */
#pragma once

#include <stdint.h>

/* Bytes that can still be taken: the least of what each limit leaves; UINT64_MAX if unknown. A group's unused page
 * cache (inactive_file) counts as free, because the kernel drops it before it kills. */
uint64_t rp_cpu_memory(const char *root);
/* CPUs of the affinity mask, or fewer where a control group's quota allows less time; at least 1. */
int rp_cpu_count(const char *root);

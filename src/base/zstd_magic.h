/* How a zstd frame begins, and so a bundle: to name what a file is that should be something else. */
#pragma once

#include <stddef.h>
#include <string.h>

#define RP_ZSTD_MAGIC_SIZE 4

static inline int rp_is_zstd(const void *data, size_t size)
{
    return size >= RP_ZSTD_MAGIC_SIZE && memcmp(data, "\x28\xb5\x2f\xfd", RP_ZSTD_MAGIC_SIZE) == 0;
}

/* CRC-32C: by the SSE4.2 instruction, or by a table where the CPU lacks it.
 *
 * Reflected: bit 31 of the register is the coefficient of x^0. table[b] is the register after byte b.
 */
#include "data/tfrecord.h"

#include <pthread.h>
#include <string.h>

#define POLYNOMIAL 0x82f63b78u /* 0x1edc6f41 reflected */

static uint32_t table[256];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void make_table(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        table[b] = b;
        for (int i = 0; i < 8; i++)
            table[b] = table[b] >> 1 ^ (table[b] & 1 ? POLYNOMIAL : 0);
    }
}

uint32_t rp_crc32c_portable(uint32_t crc, const void *data, size_t size)
{
    const unsigned char *p = data;
    pthread_once(&table_once, make_table);
    for (crc = ~crc; size; size--, p++)
        crc = crc >> 8 ^ table[(crc ^ *p) & 255];
    return ~crc;
}

__attribute__((target("sse4.2"))) static uint32_t crc32c_sse42(uint32_t crc, const unsigned char *p, size_t size)
{
    uint64_t c = ~crc;
    for (; size >= 8; size -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, sizeof word);
        c = __builtin_ia32_crc32di(c, word);
    }
    for (; size; size--, p++)
        c = __builtin_ia32_crc32qi((uint32_t)c, *p);
    return ~(uint32_t)c;
}

uint32_t rp_crc32c(uint32_t crc, const void *data, size_t size)
{
    return __builtin_cpu_supports("sse4.2") ? crc32c_sse42(crc, data, size) : rp_crc32c_portable(crc, data, size);
}

uint32_t rp_crc32c_mask(uint32_t crc)
{
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

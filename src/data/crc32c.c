/* CRC-32C without special instructions, and the choice between the two.
 *
 * Reflected: bit 31 of the register is the coefficient of x^0. table[k][b] is the register after byte b and k zero bytes; eight
 * bytes are then eight look-ups whose results are xored, because the CRC is linear.
 */
#include "data/tfrecord.h"

#include <pthread.h>
#include <string.h>

#define POLYNOMIAL 0x82f63b78u /* 0x1edc6f41 reflected */

static uint32_t table[8][256];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void make_table(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t c = b;
        for (int i = 0; i < 8; i++)
            c = c >> 1 ^ (c & 1 ? POLYNOMIAL : 0);
        table[0][b] = c;
    }
    for (int k = 1; k < 8; k++)
        for (int b = 0; b < 256; b++)
            table[k][b] = table[k - 1][b] >> 8 ^ table[0][table[k - 1][b] & 255];
}

uint32_t rp_crc32c_portable(uint32_t crc, const void *data, size_t size)
{
    const unsigned char *p = data;
    pthread_once(&table_once, make_table);
    crc = ~crc;
    for (; size >= 8; size -= 8, p += 8) {
        crc ^= p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        crc = table[7][crc & 255] ^ table[6][crc >> 8 & 255] ^ table[5][crc >> 16 & 255] ^ table[4][crc >> 24] ^ table[3][p[4]] ^
              table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
    }
    for (; size; size--, p++)
        crc = crc >> 8 ^ table[0][(crc ^ *p) & 255];
    return ~crc;
}

uint32_t rp_crc32c(uint32_t crc, const void *data, size_t size)
{
    return rp_crc32c_have_sse42() ? rp_crc32c_sse42(crc, data, size) : rp_crc32c_portable(crc, data, size);
}

uint32_t rp_crc32c_mask(uint32_t crc)
{
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/* CRC-32C with the SSE4.2 instruction, three streams at a time.
 *
 * crc32q takes one word a cycle but answers after three: three neighbouring blocks of STREAM bytes are therefore done together and
 * joined by crc(A|B|C) = crc(A) * x^(16*STREAM) + crc(B) * x^(8*STREAM) + crc(C) mod P. A carry-less product of two reflected 32-bit
 * polynomials, fed to crc32q with register 0, is a * b * x^33 mod P; so shifting by n bits takes b = x^(n-33) mod P.
 */
#include "data/tfrecord.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#define STREAM 256
#define SHIFT_1 0xb9e02b86u /* x^(8*256-33) mod P, reflected */
#define SHIFT_2 0xdd7e3b0cu /* x^(8*512-33) mod P, reflected */
#define TARGET __attribute__((target("sse4.2,pclmul")))

int rp_crc32c_have_sse42(void)
{
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}

static inline uint64_t word(const unsigned char *p)
{
    uint64_t w;
    memcpy(&w, p, sizeof w);
    return w;
}

TARGET static inline uint64_t shift(uint64_t crc, uint32_t by)
{
    __m128i p = _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)crc), _mm_cvtsi32_si128((int)by), 0);
    return _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(p));
}

TARGET uint32_t rp_crc32c_sse42(uint32_t crc, const void *data, size_t size)
{
    const unsigned char *p = data;
    uint64_t a = ~crc;
    for (; size >= 3 * STREAM; size -= 3 * STREAM, p += 3 * STREAM) {
        uint64_t b = 0, c = 0;
        for (size_t i = 0; i < STREAM; i += 8) {
            a = _mm_crc32_u64(a, word(p + i));
            b = _mm_crc32_u64(b, word(p + STREAM + i));
            c = _mm_crc32_u64(c, word(p + 2 * STREAM + i));
        }
        a = shift(a, SHIFT_2) ^ shift(b, SHIFT_1) ^ c;
    }
    for (; size >= 8; size -= 8, p += 8)
        a = _mm_crc32_u64(a, word(p));
    for (; size; size--, p++)
        a = _mm_crc32_u8((uint32_t)a, *p);
    return ~(uint32_t)a;
}

#else

int rp_crc32c_have_sse42(void)
{
    return 0;
}

uint32_t rp_crc32c_sse42(uint32_t crc, const void *data, size_t size)
{
    return rp_crc32c_portable(crc, data, size);
}

#endif

/* Rounding to fp16 and bf16, src/ops/low.h: every 16-bit number, and the neighbours in fp32 of every border between
 * two. The compiler's conversions (F16C's where the CPU has it) are another definition of fp16; of bf16, fp32 is cut
 * in half. */
#include "ops/functions.h"
#include "ops/low.h"
#include "tests/unit/tap.h"

static uint16_t other_rounding(enum rp_tc_format format, uint32_t x)
{
    if ((x & 0x7fffffff) > 0x7f800000)
        return 0x7fff;
    if (format == RP_TC_FP16) {
        const _Float16 half = (_Float16)r_float(x);
        uint16_t u;
        memcpy(&u, &half, sizeof u);
        return u;
    }
    return (uint16_t)((x + 0x7fff + (x >> 16 & 1)) >> 16);
}

static uint32_t other_value(enum rp_tc_format format, uint16_t x)
{
    _Float16 half;
    if (format == RP_TC_BF16)
        return (uint32_t)x << 16;
    memcpy(&half, &x, sizeof half);
    return r_bits((float)half);
}

static int is_nan(enum rp_tc_format format, uint16_t x)
{
    return (x & 0x7fff) > (format == RP_TC_FP16 ? 0x7c00 : 0x7f80);
}

TEST(every_number_is_read_exactly_and_is_its_own_rounding)
{
    for (int format = 0; format < 2; format++)
        for (uint32_t x = 0; x < 65536; x++) {
            const uint32_t value = rp_low_value((enum rp_tc_format)format, (uint16_t)x);
            if (is_nan((enum rp_tc_format)format, (uint16_t)x)) {
                CHECK((value & 0x7fffffff) > 0x7f800000 && rp_low_of((enum rp_tc_format)format, value) == 0x7fff,
                      "%d: %04x", format, x);
                continue;
            }
            CHECK(value == other_value((enum rp_tc_format)format, (uint16_t)x), "%d: %04x is read as %08x", format, x,
                  value);
            CHECK(rp_low_of((enum rp_tc_format)format, value) == x, "%d: %04x is rounded to %04x", format, x,
                  rp_low_of((enum rp_tc_format)format, value));
        }
}

/* The number half-way to the next one, and its neighbours. */
TEST(rounding_changes_half_way_and_there_to_even)
{
    for (int format = 0; format < 2; format++)
        for (uint32_t x = 0; x < 65535; x++) {
            const uint32_t inf = format == RP_TC_FP16 ? 0x7c00 : 0x7f80, size = x & 0x7fff;
            if (size >= inf)
                continue;
            const uint32_t low = rp_low_value((enum rp_tc_format)format, (uint16_t)x);
            /* of the largest number, the next one would be twice the power of two below it */
            const double next = size + 1 == inf
                                    ? (format == RP_TC_FP16 ? 0x1p16 : 0x1p128)
                                    : r_float(rp_low_value((enum rp_tc_format)format, (uint16_t)(size + 1)));
            const double middle = ((double)r_float(low & 0x7fffffff) + next) / 2;
            const uint32_t half = r_bits((float)middle) | (low & 0x80000000);
            if ((double)r_float(half & 0x7fffffff) != middle)
                continue; /* between two subnormal numbers of fp32 */
            const uint32_t even = x & 1 ? x + 1 : x;
            CHECK(rp_low_of((enum rp_tc_format)format, half - 1) == x &&
                      rp_low_of((enum rp_tc_format)format, half) == even &&
                      rp_low_of((enum rp_tc_format)format, half + 1) == x + 1,
                  "%d: around %08x: %04x, %04x, %04x", format, half, rp_low_of((enum rp_tc_format)format, half - 1),
                  rp_low_of((enum rp_tc_format)format, half), rp_low_of((enum rp_tc_format)format, half + 1));
        }
}

TEST(other_conversions_agree)
{
    uint32_t x = 0;
    const uint32_t step = tap_long() ? 1 : 2047; /* odd: all low bits occur */
    long differ = 0;
    for (int format = 0; format < 2; format++)
        do {
            differ += rp_low_of((enum rp_tc_format)format, x) != other_rounding((enum rp_tc_format)format, x);
            x += step;
        } while (x >= step);
    CHECK(differ == 0, "%ld differ", differ);
}

/* Which instruction sets this CPU has and the operating system saves: CPUID leaves 1 and 7, and XCR0. */
#include "backend/cpu/cpu.h"

#include <cpuid.h>
#include <string.h>

/* XCR0: which register files the kernel switches between threads. */
#define XCR0_AVX 0x06u    /* XMM, upper YMM */
#define XCR0_AVX512 0xe6u /* ... and opmask, upper ZMM, ZMM16-31 */

#define LEAF1_C (bit_FMA | bit_OSXSAVE | bit_AVX | bit_F16C)
#define LEAF7_B (bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL)

static int os_saves(unsigned mask)
{
    unsigned lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (lo & mask) == mask;
}

static int leaf1_has(unsigned mask)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & mask) == mask;
}

static int leaf7_has(unsigned mask)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & mask) == mask;
}

int rp_isa_has_fma(void)
{
    return leaf1_has(bit_FMA | bit_AVX | bit_OSXSAVE) && os_saves(XCR0_AVX);
}

int rp_isa_usable(enum rp_isa isa)
{
    int avx2 = leaf1_has(LEAF1_C) && os_saves(XCR0_AVX) && leaf7_has(bit_AVX2);
    switch (isa) {
    case RP_ISA_scalar:
        return 1;
    case RP_ISA_avx2:
        return avx2;
    case RP_ISA_avx512:
        return avx2 && leaf7_has(LEAF7_B) && os_saves(XCR0_AVX512);
    case RP_ISA_auto:
    case RP_ISA_COUNT:
        break;
    }
    return 0;
}

enum rp_isa rp_isa_best(void)
{
    for (int isa = RP_ISA_COUNT - 1; isa > RP_ISA_scalar; isa--)
        if (rp_isa_usable((enum rp_isa)isa))
            return (enum rp_isa)isa;
    return RP_ISA_scalar;
}

const char *rp_isa_name(enum rp_isa isa)
{
    return (unsigned)isa < RP_ISA_COUNT ? rp_choice_name(RP_ISAS, isa) : "?";
}

int rp_isa_from_name(const char *name)
{
    if (!name || !strcmp(name, rp_isa_name(RP_ISA_auto)))
        return (int)rp_isa_best();
    for (int isa = RP_ISA_scalar; isa < RP_ISA_COUNT; isa++)
        if (!strcmp(name, rp_isa_name((enum rp_isa)isa)))
            return isa;
    return -1;
}

/* CPUID leaves 0x80000002 to 0x80000004: 48 characters, often with blanks around them. */
void rp_isa_brand(char out[128])
{
    unsigned word[12], most, none;
    char text[sizeof word + 1] = "";
    if (__get_cpuid(0x80000000u, &most, &none, &none, &none) && most >= 0x80000004u) {
        for (unsigned i = 0; i < 3; i++)
            __get_cpuid(0x80000002u + i, &word[4 * i], &word[4 * i + 1], &word[4 * i + 2], &word[4 * i + 3]);
        memcpy(text, word, sizeof word);
    }
    char *from = text + strspn(text, " ");
    size_t n = strlen(from);
    while (n && from[n - 1] == ' ')
        n--;
    from[n] = 0;
    for (char *p = from; *p; p++)
        if (*p < ' ' || *p > '~')
            *p = '?';
    memcpy(out, from, n + 1);
}

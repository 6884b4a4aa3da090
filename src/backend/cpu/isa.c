/* The instruction sets that this CPU has and the operating system supports. */
#include "backend/cpu/cpu.h"

#include <cpuid.h>
#include <string.h>

int rp_isa_has_fma(void)
{
    return __builtin_cpu_supports("fma") != 0;
}

int rp_isa_usable(enum rp_isa isa)
{
    unsigned a, b, c = 0, d;
    int f16c = __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C; /* no name in __builtin_cpu_supports() of Clang 14 */
    int avx2 = f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    switch (isa) {
    case RP_ISA_scalar:
        return 1;
    case RP_ISA_avx2:
        return avx2;
    case RP_ISA_avx512:
        return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl");
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

/* CPUID leaves 0x80000002 to 0x80000004: 48 characters, often padded with blanks. */
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

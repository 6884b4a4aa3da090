/* The instruction sets that this CPU has and the operating system supports, and its name. */
#include "backend/cpu/inner.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined __x86_64__
#include <cpuid.h>
#else
#include <sys/auxv.h>
#include <unistd.h>
#endif

/* A flag of /proc/cpuinfo, of which the operating system saves the registers. */
struct flag {
    const char *name;
    bool here;
};

static bool find_flag(const struct flag *flags, size_t n, const char *name)
{
    size_t i = 0;
    while (i < n && strcmp(flags[i].name, name) != 0)
        i++;
    RP_BUG_IF(i == n);
    return flags[i].here;
}

#if defined __x86_64__

int rp_isa_chooses_fma(void)
{
    return __builtin_cpu_supports("fma") != 0;
}

static bool has_f16c(void) /* no name in __builtin_cpu_supports() of Clang 14 */
{
    unsigned a, b, c = 0, d;
    return __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
}

static bool has_flag(const char *flag)
{
    const struct flag flags[] = {
#define BUILTIN(name) {name, __builtin_cpu_supports(name) != 0}
        BUILTIN("avx"),      BUILTIN("avx2"),     BUILTIN("fma"),      {"f16c", has_f16c()},
        BUILTIN("avx512f"),  BUILTIN("avx512dq"), BUILTIN("avx512bw"), BUILTIN("avx512vl"),
#undef BUILTIN
    };
    return find_flag(flags, sizeof flags / sizeof *flags, flag);
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

#else

int rp_isa_chooses_fma(void)
{
    return 0;
}

static bool has_flag(const char *flag)
{
    const struct flag flags[] = {{"asimd", (getauxval(AT_HWCAP) & 1u << 1) != 0}}; /* HWCAP_ASIMD */
    return find_flag(flags, sizeof flags / sizeof *flags, flag);
}

/* MIDR_EL1: implementer in bits 24 to 31, part in bits 4 to 15. */
static void add_midr(char names[128], uint64_t midr)
{
    rp_arm_names_add(names, midr >> 24 & 0xff, midr >> 4 & 0xfff);
}

/* Names of all processors that are online, as in /proc/cpuinfo: there may be two kinds. Emulators do not have the
 * files. */
void rp_isa_brand(char out[128])
{
    int seen = 0;
    *out = 0;
    for (int cpu = 0; cpu < sysconf(_SC_NPROCESSORS_CONF); cpu++) {
        char path[80], text[32] = "";
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/regs/identification/midr_el1", cpu);
        FILE *f = fopen(path, "re");
        if (f && fgets(text, sizeof text, f)) {
            add_midr(out, strtoull(text, NULL, 16));
            seen = 1;
        }
        if (f)
            fclose(f);
    }
    if (!seen && getauxval(AT_HWCAP) & 1u << 11) { /* HWCAP_CPUID: the kernel reads it for programs */
        uint64_t midr;
        __asm__("mrs %0, midr_el1" : "=r"(midr));
        add_midr(out, midr);
    }
}

#endif

int rp_isa_usable(enum rp_isa isa)
{
    static const char *const here[RP_ISA_COUNT] = {
#define ROW(X, name, machine, ...) [RP_ISA_##name] = RP_KERNELS_##machine(#name),
        RP_ISA_ROWS(ROW, )
#undef ROW
    };
    if (isa <= RP_ISA_auto || isa >= RP_ISA_COUNT || !here[isa])
        return 0;
    for (const char *const *flag = rp_isa_find(rp_isa_name(isa))->flag; *flag; flag++)
        if (!has_flag(*flag))
            return 0;
    return 1;
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

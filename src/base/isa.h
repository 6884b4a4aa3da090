/* Every instruction set of CPUs that this program knows: one row each.
 *
 * What:    what a CPU needs for its kernels, and how fast they can be at most.
 * Flow:    RP_ISA_ROWS -> choices of run.isa (recipe/choices.h), kernels of the CPU backend (backend/cpu), checks of
 *          the device and of the peak (verify/), `selftest`, the doctor's advice. Documents contain the name; a name
 *          without a row is unknown here, which is neither an error nor slow.
 * Extend:  a row, after the narrower ones of its machine; gemm_<name>.c and ops_<name>.c in backend/cpu, with their
 *          compiler options, or for which machines they are, in the Makefile; a new flag in has_flag() of
 *          backend/cpu/isa.c.
 */
#pragma once

/* ROW(X, name, machine, flops, flags...): X is passed on, for lists that apply a macro to each name.
 * name     of run.isa and of the device in facts.json; the kernels are rp_gemm_<name> and rp_cpu_ops_<name>
 * machine  the builds that have these kernels: x86_64, aarch64, or every
 * flops    fp32 FLOPs of a core in a cycle, at most: two fused multiply-adds of full width; of NEON six, which
 *          Cortex-X925 has (Neoverse V1 and V2 have four). Scalar code is compiled for SSE2: at most one multiplication
 *          and one addition of four floats. On aarch64 it has fused ones, in tiles of two chains that wait for
 *          themselves: not more.
 * flags    what the CPU needs, as in /proc/cpuinfo; NULL: nothing */
#define RP_ISA_ROWS(ROW, X)                                \
    ROW(X, scalar, every, 8, NULL)                         \
    ROW(X, avx2, x86_64, 32, "avx", "avx2", "fma", "f16c") \
    ROW(X, avx512, x86_64, 64, "avx", "avx2", "fma", "f16c", "avx512f", "avx512dq", "avx512bw", "avx512vl") \
    ROW(X, neon, aarch64, 48, "asimd")
#define RP_ISA_ROW_NAME(X, name, ...) X(name)

struct rp_isa_row {
    const char *name;
    double flops;
    const char *flag[12]; /* NULL after the last one */
};

/* NULL: this program does not know it. */
const struct rp_isa_row *rp_isa_find(const char *name);
double rp_isa_most_flops(void); /* of any row */

/* The name of an Arm processor (arm_parts.def); NULL: this program does not know it. */
const char *rp_arm_name(unsigned long implementer, unsigned long part);
/* Adds a processor to the names of a machine's kinds, "Cortex-A725 + Cortex-X925" in the order of its processors: names
 * is "" at first, and each kind is added once. One without a name adds nothing. */
void rp_arm_names_add(char names[128], unsigned long implementer, unsigned long part);

#include "tests/cuda/sass.h"

#include <stdint.h>
#include <string.h>

enum { LEAST_FFMA = 64, BEHIND = 2, LEAST_HMMA = 16 };

/* Bits 0 to 8 are the operation, 9 to 11 how its operands come. */
enum operation {
    FFMA = 0x023,
    HMMA_QUADS = 0x036, /* of sm_70: a quarter of mma.m8n8k4 */
    LOAD_MATRIX = 0x03b,
    HMMA = 0x03c,
    HGMMA = 0x1f0, /* by a warpgroup, both operands in shared memory */
    OTHER = 0x200,
    WARPGROUP = 0x1c5, /* its fence, or with bit 47 its wait */
    BRANCH = 0x147,
    LOAD_GLOBAL = 0x181,
    LOAD_LOCAL = 0x183,
    LOAD_SHARED = 0x184,
    STORE_LOCAL = 0x187,
    STORE_SHARED = 0x188,
    COPY_SHARED = 0x1ae,
    BARRIER = 0x11d
};
struct instruction {
    uint64_t low, high;
};

static int operation(const struct instruction *i)
{
    const int op = (int)(i->low & 0x1ff);
    return op == HMMA_QUADS && (i->low >> 9 & 7) != 1 ? OTHER : op; /* VIADD of sm_90 */
}
static int has_16_bytes(const struct instruction *i) /* of a lane, to or from memory */
{
    return (i->high >> 9 & 7) == 6;
}

/* In instructions, from the one after it. From sm_90 on eight more bits are in front. */
static int64_t jump(const struct instruction *i, int arch)
{
    int64_t words = (int64_t)(i->low & 0xfffffffc00000000ull) >> 34;
    return arch < 90 ? words / 4 : (words * 256 + (int64_t)(i->low >> 16 & 0xff)) / 4;
}

/* Operands a, b and c of an FFMA: the register's number, or -1 where it is a constant; *is_kept for the next
 * instruction. */
static int operand(const struct instruction *i, int slot, int *is_kept)
{
    int form = (int)(i->low >> 9 & 7), number = slot == 0   ? (int)(i->low >> 24 & 0xff)
                                                : slot == 1 ? (int)(i->low >> 32 & 0xff)
                                                            : (int)(i->high & 0xff);
    *is_kept = (int)(i->high >> (58 + slot) & 1);
    /* RZ is no read; other forms than three registers are rare */
    return number == 0xff || (form != 1 && slot > 0) ? -1 : number;
}

static int count(const struct instruction *from, const struct instruction *to, int op)
{
    int n = 0;
    for (; from < to; from++)
        n += operation(from) == op;
    return n;
}

/* ---- what limits it ---- */

/* Cycles of one partition for one pass of one warp; *reads of the banks. */
static double issue_cycles(const struct instruction *from, const struct instruction *to, int cycles_each, int *reads)
{
    int kept[3][2], behind[2] = {0, 0}, ffma = 0, waits = 0;
    memset(kept, -1, sizeof kept);
    *reads = 0;
    for (const struct instruction *i = from; i < to; i++) {
        int is_ffma = operation(i) == FFMA, served = is_ffma ? cycles_each : cycles_each == 1;
        ffma += is_ffma;
        for (int slot = 0; slot < 3 && is_ffma; slot++) {
            int is_kept, r = operand(i, slot, &is_kept), bank = r & 1;
            if (r < 0)
                continue;
            if (kept[slot][bank] != r)
                behind[bank]++, ++*reads;
            kept[slot][bank] = is_kept ? r : -1;
        }
        for (int most = behind[0] > behind[1] ? behind[0] : behind[1]; most - served > BEHIND; most--)
            waits++, served++;
        for (int bank = 0; bank < 2; bank++)
            behind[bank] = behind[bank] > served ? behind[bank] - served : 0;
    }
    double busy = (double)ffma * cycles_each + waits, started = (double)(to - from);
    return cycles_each == 1 ? started + waits : busy > started ? busy : started;
}

/* Cycles of shared memory for one pass of one warp in each partition. */
static double shared_cycles(const struct instruction *from, const struct instruction *to)
{
    double n = 0;
    for (const struct instruction *i = from; i < to; i++)
        switch (operation(i)) {
        case LOAD_SHARED:
            n += has_16_bytes(i) ? 2 : 1;
            break;
        case STORE_SHARED:
        case LOAD_GLOBAL:
            n += has_16_bytes(i) ? 4 : 1;
            break;
        case COPY_SHARED:
            n += 4;
            break;
        default:
            break;
        }
    return 4 * n;
}

static void describe(struct sass_loop *out, const struct instruction *from, const struct instruction *to, int arch)
{
    int reads, each = arch <= 80 ? 2 : 1;
    double cycles = issue_cycles(from, to, each, &reads), shared = shared_cycles(from, to);
    *out = (struct sass_loop){.instructions = (int)(to - from),
                              .ffma = count(from, to, FFMA),
                              .shared_loads = count(from, to, LOAD_SHARED),
                              .copies = count(from, to, COPY_SHARED) + count(from, to, STORE_SHARED),
                              .barriers = count(from, to, BARRIER),
                              .local = count(from, to, LOAD_LOCAL) + count(from, to, STORE_LOCAL)};
    out->reads = (double)reads / out->ffma;
    out->bound = out->ffma * (double)each / (cycles > shared ? cycles : shared);
}

/* ---- which loop ---- */

int sass_main_loop(struct sass_loop *out, const unsigned char *code, size_t bytes, int arch)
{
    const struct instruction *all = (const void *)code, *best = NULL, *best_end = NULL;
    /* the end of the last loop that counts: one around it starts before that */
    int64_t n = (int64_t)(bytes / sizeof *all), inner = -1;
    int most = LEAST_FFMA - 1;
    for (int64_t i = 0; i < n; i++) {
        int64_t start = operation(&all[i]) == BRANCH ? i + 1 + jump(&all[i], arch) : n;
        if (start < 0 || start > i || start <= inner)
            continue;
        int ffma = count(&all[start], &all[i + 1], FFMA);
        if (ffma >= LEAST_FFMA)
            inner = i;
        if (ffma > most && 10 * ffma >= 3 * (i + 1 - start)) { /* a loop of exponentials has fewer */
            most = ffma;
            best = &all[start];
            best_end = &all[i + 1];
        }
    }
    if (best)
        describe(out, best, best_end, arch);
    return best != NULL;
}

/* ---- tensor cores ---- */

int sass_tensor_rate(int arch)
{
    return arch < 80 ? 512 : arch == 80 ? 1024 : arch < 90 ? 512 : arch == 90 ? 2048 : arch < 120 ? 4096 : 512;
}

static int products_of(const struct instruction *from, const struct instruction *to)
{
    return count(from, to, HMMA) + count(from, to, HMMA_QUADS) + count(from, to, HGMMA);
}
/* Waits of a warpgroup, or else its fences. */
static int meetings_of(const struct instruction *from, const struct instruction *to, int are_waits)
{
    int n = 0;
    for (; from < to; from++)
        n += operation(from) == WARPGROUP && (int)(from->low >> 47 & 1) == are_waits;
    return n;
}
/* In HMMA: an HGMMA of 64 x 256 x 16 is 32 of each of its four warps. */
static int work_of(const struct instruction *from, const struct instruction *to)
{
    return products_of(from, to) + 31 * count(from, to, HGMMA);
}

static int bytes_of_lane(const struct instruction *i)
{
    return has_16_bytes(i) ? 16 : (i->high >> 9 & 7) == 5 ? 8 : 4;
}

/* Cycles of shared memory for one pass of one warp. */
static double product_cycles(const struct instruction *from, const struct instruction *to)
{
    double shared = 0;
    for (const struct instruction *i = from; i < to; i++)
        shared += operation(i) == HGMMA ? 20 /* of 80 for 64 rows of A and 256 columns of B */
                  : operation(i) == LOAD_MATRIX || operation(i) == COPY_SHARED  ? 4
                  : operation(i) == LOAD_SHARED || operation(i) == STORE_SHARED ? bytes_of_lane(i) / 4.0
                                                                                : 0;
    return shared;
}

/* copies: NULL, or the loop of warps that only copy, of which there is one for each two that multiply. */
static void describe_products(struct sass_product_loop *out, const struct instruction *from,
                              const struct instruction *to, const struct instruction *copies,
                              const struct instruction *copies_end, int arch)
{
    const int each = arch < 75 ? 256 : arch < 80 ? 1024 : 2048; /* multiply-adds of an HMMA */
    const double shared = product_cycles(from, to) + (copies ? product_cycles(copies, copies_end) / 2 : 0);
    *out = (struct sass_product_loop){.instructions = (int)(to - from),
                                      .products = products_of(from, to),
                                      .fences = meetings_of(from, to, 0),
                                      .waits = meetings_of(from, to, 1),
                                      .loads = count(from, to, LOAD_MATRIX) + count(from, to, LOAD_SHARED),
                                      .copies = count(from, to, COPY_SHARED) + count(from, to, STORE_SHARED),
                                      .local = count(from, to, LOAD_LOCAL) + count(from, to, STORE_LOCAL)};
    const double busy = work_of(from, to) * (double)each / (sass_tensor_rate(arch) / 4.0);
    const double started = out->instructions + (copies ? (double)(copies_end - copies) / 2 : 0);
    const double least = 4 * shared > started ? 4 * shared : started;
    out->bound = busy / (busy > least ? busy : least);
}

int sass_product_loop(struct sass_product_loop *out, const unsigned char *code, size_t bytes, int arch)
{
    const struct instruction *all = (const void *)code, *best = NULL, *best_end = NULL, *copies = NULL,
                             *copies_end = NULL;
    const int64_t n = (int64_t)(bytes / sizeof *all);
    int64_t inner = -1;
    int most = LEAST_HMMA - 1, most_copies = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t start = operation(&all[i]) == BRANCH ? i + 1 + jump(&all[i], arch) : n;
        if (start < 0 || start > i || start <= inner)
            continue;
        const int products = work_of(&all[start], &all[i + 1]);
        const int copied = products ? 0 : count(&all[start], &all[i + 1], COPY_SHARED);
        if (products >= LEAST_HMMA)
            inner = i;
        if (copied > most_copies) {
            most_copies = copied;
            copies = &all[start];
            copies_end = &all[i + 1];
        }
        if (products > most) {
            most = products;
            best = &all[start];
            best_end = &all[i + 1];
        }
    }
    if (best)
        describe_products(out, best, best_end, count(best, best_end, HGMMA) ? copies : NULL, copies_end, arch);
    return best != NULL;
}

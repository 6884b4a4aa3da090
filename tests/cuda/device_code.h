/* What is in compiled device code: the arithmetic of each kernel in PTX and in machine code, and what ptxas says of it.
 *
 * What:    readers of the files that env/device-code.sh leaves.
 * Flow:    NAME (PTX or a cubin), NAME.txt -> struct code, one row a kernel.
 * Owner:   the caller frees rows.
 * Extend:  an instruction that PTX may have is a row of allowed[] in device_code.c.
 */
#pragma once

#include "base/err.h"

#include <stddef.h>

struct code_kernel {
    char name[64];
    /* fma.rn.f32 in PTX, and those with the mark of written.h; or FFMA in machine code, as operations */
    int fused, written;
    int expands;        /* div, rcp, sqrt in PTX: ptxas makes many instructions of each, FFMA among them */
    int products, sums; /* mul, add and sub */
    char refused[64];   /* the first instruction that PTX may not have */
    int registers, shared, stack, spills; /* from ptxas; bytes, spills as stores and loads together */
};
struct code {
    struct code_kernel *row;
    int n;
};

/* Each adds to rows that are there already by the name of the kernel. */
int code_read_ptx(struct code *c, const char *path, struct rp_err *err) rp_must_check;
int code_read_cubin(struct code *c, const char *path, struct rp_err *err) rp_must_check;
int code_read_statistics(struct code *c, const char *path, struct rp_err *err) rp_must_check;
struct code_kernel *code_find(const struct code *c, const char *name); /* NULL: no such kernel */
void code_free(struct code *c);

/* Every kernel of a cubin with its instructions, 16 bytes each. */
int code_each_text(const char *path,
                   void (*each)(void *user, const char *kernel, const unsigned char *code, size_t bytes), void *user,
                   struct rp_err *err) rp_must_check;

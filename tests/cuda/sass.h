/* The main loop of a matrix product in machine code: its instructions, and how fast a multiprocessor can go through
 * them.
 *
 * What:    the innermost loop with most FFMA of a kernel, at least three of ten instructions, and a model of what
 *          limits it. An estimate: the model's rules are assumptions.
 * Flow:    instructions of a cubin -> struct sass_loop.
 * Extend:  what is read of an instruction is at the top of sass.c, checked against nvdisasm 12.8 for sm_70, 80 and 90.
 *
 * The model. Each of four partitions starts one instruction of a warp a cycle. An FFMA keeps its partition's arithmetic
 * for one cycle, or for two where a multiprocessor has 64 lanes (sm_70, 75, 80): everything else then starts in
 * between. Registers are in two banks, even and odd, which give one operand a cycle each; an operand with .reuse is
 * kept for the same place of the next instruction; a bank may be two reads behind before its warp waits. Shared memory
 * is one for all partitions and moves 128 bytes a cycle: a load of 16 bytes a lane takes 2 cycles (neighbouring lanes
 * read the same), a store of 16 or a copy 4, anything else 1.
 */
#pragma once

#include <stddef.h>

struct sass_loop {
    int instructions, ffma, shared_loads, copies, barriers, local;
    double reads; /* operands that an FFMA reads from the banks */
    double bound; /* share of the arithmetic's peak that the loop can reach; of the smaller peak on sm_70, 75 and 80 */
};

/* The main loop of a product with tensor cores: the innermost one with most HMMA. The same model: a partition's tensor
 * core needs some cycles for each HMMA, four matrices by ldmatrix or a copy of 16 bytes a lane are 4 cycles of shared
 * memory. An HGMMA is as many HMMA as its work, and reads both operands for its four warps; the loop of the warps that
 * copy counts half, because two others multiply for each of them. */
struct sass_product_loop {
    int instructions, products, loads, copies, local;
    int fences, waits; /* of warpgroups */
    double bound;      /* share of the tensor cores' peak that the loop can reach */
};
/* 0: there is no loop with 16 HMMA, or their work. arch: 90 */
int sass_product_loop(struct sass_product_loop *out, const unsigned char *code, size_t bytes, int arch);
/* Multiply-adds of 16-bit numbers with sums in fp32 that a multiprocessor does in a cycle, of the data sheets; GeForce
 * has half. */
int sass_tensor_rate(int arch);

/* 0: there is no loop with 64 FFMA. arch: 90 */
int sass_main_loop(struct sass_loop *out, const unsigned char *code, size_t bytes, int arch);

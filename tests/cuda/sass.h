/* The main loop of a matrix product in machine code: its instructions, and how fast a multiprocessor can go through them.
 *
 * What:    the innermost loop with most FFMA of a kernel, at least three of ten instructions, and a model of what limits
 *          it. An estimate: the model's rules are assumptions.
 * Flow:    instructions of a cubin -> struct sass_loop.
 * Extend:  what is read of an instruction is at the top of sass.c, checked against nvdisasm 12.8 for sm_70, 80 and 90.
 *
 * The model. Each of four partitions starts one instruction of a warp a cycle. An FFMA keeps its partition's arithmetic for one cycle, or
 * for two where a multiprocessor has 64 lanes (sm_70, 75, 80): everything else then starts in between. Registers are in two banks, even
 * and odd, which give one operand a cycle each; an operand with .reuse is kept for the same place of the next instruction; a bank may be
 * two reads behind before its warp waits. Shared memory is one for all partitions and moves 128 bytes a cycle: a load of 16 bytes a lane
 * takes 2 cycles (neighbouring lanes read the same), a store of 16 or a copy 4, anything else 1.
 */
#pragma once

#include <stddef.h>

struct sass_loop {
    int instructions, ffma, shared_loads, copies, barriers, local;
    double reads; /* operands that an FFMA reads from the banks */
    double bound; /* share of the arithmetic's peak that the loop can reach; of the smaller peak on sm_70, 75 and 80 */
};

/* 0: there is no loop with 64 FFMA. arch: 90 */
int sass_main_loop(struct sass_loop *out, const unsigned char *code, size_t bytes, int arch);

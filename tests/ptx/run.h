/* Warps and blocks that execute PTX.
 *
 * What:    a warp is groups of threads that are at one instruction; a block is its warps and shared memory; several blocks are resident.
 * Flow:    shim_launch() (grid.c) -> ptx_run_warp() (warp.c) until the warp has to wait -> ptx_execute() (exec.c) for each instruction.
 * Owner:   grid.c keeps blocks and registers of warps for the next launch.
 * Extend:  a check of memory goes into access.c, which every access passes.
 */
#pragma once

#include "tests/ptx/ptx.h"
#include "tests/shim/run.h"

/* Threads of a warp at one instruction. */
struct ptx_group {
    u32 mask, pc;
    enum { READY, AT_WARP, AT_BLOCK } state; /* AT_WARP: waits for other lanes; AT_BLOCK: complete, waits for other warps */
};

/* cp.async of a group of threads that has not landed. */
struct ptx_copy {
    u32 mask, pc, bytes;
    u32 group[LANES], to[LANES], inside[LANES]; /* commit group, address in shared memory, bytes that are not zeros */
    u64 from[LANES];
};

struct ptx_warp {
    struct ptx_block *block;
    const struct ptx_kernel *kernel;
    struct ptx_group group[LANES];
    int groups;
    u32 live, first;       /* lanes that have not returned; thread of lane 0 */
    u8 *r, *local;         /* registers, local memory of each lane */
    u32 *p;                /* predicates */
    size_t r_room, p_room, local_room;
    struct ptx_copy *copy;
    int copies, copies_room;
    u32 committed[LANES];  /* commit groups so far */
    u32 epoch;             /* barriers of the warp that it has passed */
};

/* What a block has seen of another one: everything before its barrier number `barriers`. */
struct ptx_seen {
    struct ptx_seen_of {
        u32 block, barriers;
    } *of;
    int n, room;
};

/* A thread that read what others released, by relaxed loads. */
struct ptx_observer {
    u32 thread;
    struct ptx_seen seen;
};

struct ptx_block {
    int is_live, place;    /* which of the resident blocks */
    struct shim_dim index;
    u32 number;            /* in the grid */
    u8 *shared;
    u32 shared_bytes;      /* declared and of the launch */
    u32 epoch, barriers;   /* epoch: another one after each barrier and in each block; barriers that it has passed */
    u32 slow;              /* gets one turn in that many */
    struct ptx_seen seen, soon; /* soon: acquired by a thread, seen by all from the next barrier on */
    struct ptx_observer *observer;
    int observers, observers_room;
    int warps;
    struct ptx_warp warp[SHIM_THREADS / LANES];
};

/* The launch that runs. */
extern struct ptx_launch {
    struct ptx_kernel *kernel;
    struct shim_dim grid, block;
    u32 threads;
    const u8 *args;
    int lockstep;          /* threads of a warp stay together where they can; else any group goes first */
    int split;             /* each thread on its own between meetings */
    int races;             /* accesses that nothing orders are faults */
    int strict;            /* only the driver's memory, else all of this process */
} ptx_launch;

/* Runs until the warp waits for its block, has returned, only looks at memory that other blocks change, or has used its turn. */
enum ptx_ran { RAN, ONLY_LOOKED };
enum ptx_ran ptx_run_warp(struct ptx_warp *w);
void ptx_split(struct ptx_warp *w, struct ptx_group *g); /* into single threads, if the launch does that */

/* Executes one instruction of lanes m that neither branches nor meets. */
void ptx_execute(struct ptx_warp *w, u32 pc, const struct ptx_insn *i, u32 m);

/* Ends the launch with a message that names block, thread and line. */
_Noreturn void ptx_fault(const struct ptx_warp *w, u32 pc, int lane, const char *format, ...) __attribute__((format(printf, 4, 5)));

static inline u32 *ptx_row32(const struct ptx_warp *w, s32 place)
{
    return (u32 *)__builtin_assume_aligned(w->r + place, 64);
}
static inline u64 *ptx_row64(const struct ptx_warp *w, s32 place)
{
    return (u64 *)__builtin_assume_aligned(w->r + place, 64);
}
#define EACH_LANE(m) for (u32 left_ = (m), lane; left_ && (lane = (u32)__builtin_ctz(left_), 1); left_ &= left_ - 1)

/* ---- access.c ---- */
void ptx_load(struct ptx_warp *w, u32 pc, const struct ptx_insn *i, u32 m);
void ptx_store(struct ptx_warp *w, u32 pc, const struct ptx_insn *i, u32 m);
void ptx_atomic(struct ptx_warp *w, u32 pc, const struct ptx_insn *i, u32 m);
void ptx_copy_start(struct ptx_warp *w, u32 pc, const struct ptx_insn *i, u32 m);
void ptx_copy_wait(struct ptx_warp *w, u32 m, s64 newest); /* all but that many groups have landed; -1: everything */
u64 ptx_extend(u64 x, enum ptx_type t); /* to 64 bits, by its type */

/* ---- races.c: accesses that nothing orders ---- */
/* OBSERVE: a relaxed load, or an atomic that returns what it found. */
enum ptx_access { READ, WRITE, LAND, ATOMIC, OBSERVE, ACQUIRE, RELEASE };
void ptx_races_begin(void);                   /* a launch */
void ptx_races_barrier(struct ptx_block *b);  /* all threads of the block have met */
void ptx_races_fence(const struct ptx_warp *w, u32 m);
/* NULL, or what is wrong; *other: the other thread of the block, or the other block. */
const char *ptx_race_shared(const struct ptx_warp *w, u32 lane, u32 at, u32 bytes, enum ptx_access kind, u32 *other);
const char *ptx_race_global(const struct ptx_warp *w, u32 lane, u64 address, u32 bytes, enum ptx_access kind, u32 *other);
/* ld.global.nc of what the same launch writes; always checked. */
const char *ptx_race_nc(u64 address, u32 bytes, int is_nc, int is_write);

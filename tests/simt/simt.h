/* Warps and blocks that execute compiled kernels: what the executor of PTX (tests/ptx) and that of machine code
 * (tests/sass) share.
 *
 * What:    a warp is groups of threads that are at one instruction; a block is its warps and shared memory; several
 *          blocks are resident.
 * Flow:    shim_launch() (grid.c) -> simt_run_warp() of the executor until the warp has to wait -> groups.c, memory.c,
 *          races.c.
 * Owner:   grid.c keeps blocks and registers of warps for the next launch; kernels live as long as the process.
 * Extend:  a check of memory goes into memory.c, which every access passes. An executor defines what is declared at the
 *          end.
 */
#pragma once

#include "tests/shim/run.h"

#include <stddef.h>
#include <stdint.h>

typedef uint8_t u8;
typedef int8_t s8;
typedef uint16_t u16;
typedef int16_t s16;
typedef uint32_t u32;
typedef int32_t s32;
typedef uint64_t u64;
typedef int64_t s64;

#define LANES 32
/* A register of 32 bits is a row of 32 u32, one of 64 bits in PTX a row of 32 u64, a predicate one u32 with a bit for
 * each lane. */
#define SIMT_ROW ((u32)(4 * LANES))

struct simt_kernel {
    char name[64];
    const char *file;
    u64 text;               /* hash: kernels of several architectures often have the same text */
    char **line;            /* text of the file by line */
    struct ptx_insn *code;  /* of PTX, or */
    struct sass_insn *sass; /* machine code */
    u32 n, room;            /* instructions; the last one is not in the text */
    u32 arena, preds;       /* bytes of a warp's registers, predicates */
    struct simt_constant {
        u32 place, is_wide;
        u64 value;
    } *constant;            /* immediate operands: places that are filled once */
    u32 constants;
    s32 always[2];          /* PTX: predicates that are false and true; -1: not used */
    u8 *is_wide;            /* PTX: of each row in the arena: the first of two */
    u32 params, params_aligned, threads;
    u32 local, shared;      /* bytes that the kernel declares */
    int has_nc;
    int has_proxies;        /* some of its instructions read shared memory as the asynchronous proxy */
    int has_barriers;       /* some use mbarrier objects (barriers.c) */
    void *own;              /* what the executor keeps with it */
    char *hits;             /* '1' for each instruction that was executed */
    u64 launches;
    struct simt_kernel *next;
};
extern struct simt_kernel *simt_kernels;

/* Threads of a warp at one instruction. */
struct simt_group {
    u32 mask, pc;
    /* AT_WARP: waits for other lanes; AT_BLOCK: complete, waits for other warps */
    enum { READY, AT_WARP, AT_BLOCK } state;
};

/* An asynchronous copy of a group of threads that has not landed. */
struct simt_copy {
    u32 mask, pc, bytes;
    u32 group[LANES], to[LANES], inside[LANES]; /* commit group, address in shared memory, bytes that are not zeros */
    u64 from[LANES];
};

struct simt_warp {
    struct simt_block *block;
    const struct simt_kernel *kernel;
    struct simt_group group[LANES];
    int groups;
    u32 live, first;       /* lanes that have not returned; thread of lane 0 */
    u8 *r, *local;         /* registers, local memory of each lane */
    u32 *p;                /* predicates */
    size_t r_room, p_room, local_room;
    struct simt_copy *copy;
    int copies, copies_room;
    u32 committed[LANES];  /* commit groups so far */
    u32 epoch;             /* barriers of the warp that it has passed */
    u32 proxies[LANES];    /* fences of proxies of each lane */
    void *own;             /* what the executor keeps with it */
    struct simt_products *products; /* that go on while the threads do (products.h), of a kernel that has_proxies */
    u64 launch;            /* that its registers were last filled for */
    u32 resumes;           /* lanes of the group that goes on first: its turn ended between two branches */
    /* the mbarrier object whose phase was not complete when it looked last, else 0; and where */
    u32 waits_at, waits_pc;
};

/* The thread that wrote a word of shared memory last, + 1, and the fences of proxies that it had passed. */
struct simt_unfenced {
    u32 writer, fences;
};

/* What a block has seen of another one: everything before its barrier number `barriers`. */
struct simt_seen {
    struct simt_seen_of {
        u32 block, barriers;
    } *of;
    int n, room;
};

/* A thread that read what others released, by relaxed loads. */
struct simt_observer {
    u32 thread;
    struct simt_seen seen;
};

struct simt_block {
    int is_live, place;    /* which of the resident blocks */
    struct shim_dim index;
    u32 number;            /* in the grid */
    u8 *shared;
    u32 shared_bytes;      /* declared and of the launch */
    u32 epoch, barriers;   /* epoch: another one after each barrier and in each block; barriers that it has passed */
    u32 slow;              /* gets one turn in that many */
    struct simt_unfenced *unfenced; /* of each word of shared memory, where a kernel has_proxies */
    struct simt_barriers *objects;  /* where a kernel has_barriers */
    struct simt_tensor_copy *tensor_copy; /* that have not landed (tensor.c) */
    int tensor_copies, tensor_room;
    struct simt_seen seen, soon; /* soon: acquired by a thread, seen by all from the next barrier on */
    struct simt_observer *observer;
    int observers, observers_room;
    int warps;
    struct simt_warp warp[SHIM_THREADS / LANES];
};

/* The launch that runs. */
extern struct simt_launch {
    struct simt_kernel *kernel;
    struct shim_dim grid, block;
    u32 threads;
    const u8 *args;
    u64 number;            /* from 1 */
    int lockstep;          /* threads of a warp stay together where they can; else any group goes first */
    int split;             /* each thread on its own between meetings */
    int races;             /* accesses that nothing orders are faults */
    int strict;            /* only the driver's memory, else all of this process */
} simt_launch;

/* Ends the launch with a message that names block, thread and instruction. */
_Noreturn void simt_fault(const struct simt_warp *w, u32 pc, int lane, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void *simt_grow(void *p, size_t bytes); /* realloc() that cannot fail */
char *simt_read_file(const char *path);
/* "RACES": of the variable PTX_RACES or SASS_RACES; NULL if it is not set */
const char *simt_setting(const char *name);
char *simt_hits(const struct simt_kernel *k, int target); /* coverage.c: k->n marks */

static inline u32 *simt_row32(const struct simt_warp *w, s32 place)
{
    return (u32 *)__builtin_assume_aligned(w->r + place, 64);
}
static inline u64 *simt_row64(const struct simt_warp *w, s32 place)
{
    return (u64 *)__builtin_assume_aligned(w->r + place, 64);
}
#define EACH_LANE(m) for (u32 left_ = (m), lane; left_ && (lane = (u32)__builtin_ctz(left_), 1); left_ &= left_ - 1)

/* ---- groups.c ---- */
void simt_remove_group(struct simt_warp *w, int k);
void simt_add_group(struct simt_warp *w, u32 mask, u32 pc);
/* groups at one instruction that are all ready, or all wait, become one */
void simt_join_groups(struct simt_warp *w, int is_ready);
/* The group that runs next, and the instruction at which it stops: in lockstep the group that is furthest back, up to
 * the next one. Lanes `avoid`, which only look at memory, let others go first. -1: every group waits. */
int simt_next_group(struct simt_warp *w, u32 avoid, u32 *stop);
void simt_split(struct simt_warp *w, struct simt_group *g); /* into single threads, if the launch does that */
/* What the lanes of the mask get of a; how: 0 up, 1 down, 2 xor, 3 a lane. The result: a bit for each lane whose source
 * is in range. */
u32 simt_shuffle(const struct simt_warp *w, u32 pc, u32 mask, int how, const u32 *a, const u32 *b, const u32 *c,
                 u32 *out);
long simt_turn(void); /* instructions of a warp before other warps get a turn */

/* ---- memory.c: where an address is, after every check; verb: "reads" ---- */
/* OBSERVE: a relaxed load, or an atomic that returns what it found. BY_PROXY: a write of the asynchronous proxy. */
enum simt_access { READ, WRITE, LAND, ATOMIC, OBSERVE, ACQUIRE, RELEASE, BY_PROXY };
void *simt_global_at(const struct simt_warp *w, u32 pc, u32 lane, u64 address, u32 bytes, const char *verb);
void *simt_shared_at(const struct simt_warp *w, u32 pc, u32 lane, u64 address, u32 bytes, enum simt_access kind,
                     const char *verb);
void simt_check_order(const struct simt_warp *w, u32 pc, u32 lane, u64 address, u32 bytes, enum simt_access kind,
                      const char *verb);
/* For the asynchronous proxy: as above, and every byte was fenced by the thread that wrote it last. */
void *simt_shared_by_proxy(const struct simt_warp *w, u32 pc, u32 lane, u64 address, u32 bytes);
/* An asynchronous copy: the caller fills to, from and inside of the lanes m of the result, then starts it. */
struct simt_copy *simt_new_copy(struct simt_warp *w, u32 pc, u32 m, u32 bytes);
void simt_copy_start(struct simt_warp *w, struct simt_copy *c);
void simt_copy_wait(struct simt_warp *w, u32 m, s64 newest); /* all but that many groups have landed; -1: everything */
/* A block's own shared memory does not begin at 0: the system has the first KiB, as on sm_80 and later. */
extern u32 simt_shared_base;

/* ---- barriers.c: mbarrier objects, by their address in shared memory ---- */
void simt_barriers_begin(struct simt_block *b); /* a block starts */
void simt_barrier_init(const struct simt_warp *w, u32 pc, u32 lane, u64 address, u32 count);
void simt_barrier_arrive(const struct simt_warp *w, u32 pc, u32 lane, u64 address, u32 bytes); /* that it expects */
/* So many bytes of a copy of that thread have landed. */
void simt_barrier_complete(const struct simt_warp *w, u32 pc, u32 lane, u64 address, u32 bytes);
/* Whether the phase of that parity is complete: the next one has the other parity. */
int simt_barrier_is_complete(struct simt_warp *w, u32 pc, u32 lane, u64 address, u32 parity);
/* Whether the asynchronous proxy sees that it is initialised. */
void simt_barrier_check_proxy(const struct simt_warp *w, u32 pc, u32 lane, u64 address);
void simt_barriers_stuck(const struct simt_block *b); /* returns if no warp waits for a phase */
/* they were at a barrier of the warp, or its products have ended */
void simt_barriers_join(const struct simt_warp *w, u32 m);
u32 simt_barriers_time(const struct simt_block *b);
/* Whether what a thread did at a time is before what another one does now. */
int simt_barriers_order(const struct simt_block *b, u32 before, u32 time, u32 after);

/* ---- tensor.c: copies of boxes of matrices by the asynchronous proxy ---- */
/* map: 128 bytes that the driver made; x, y: the first number and line of the box. */
void simt_tensor_issue(const struct simt_warp *w, u32 pc, u32 lane, const void *map, u64 to, s32 x, s32 y, u64 barrier);
void simt_tensor_land(struct simt_block *b, u64 barrier); /* one that has not, if there is one */
void simt_tensor_check_end(const struct simt_block *b);

/* ---- races.c: accesses that nothing orders ---- */
void simt_races_begin(void);                     /* a launch */
void simt_races_barrier(struct simt_block *b);  /* all threads of the block have met */
void simt_races_fence(const struct simt_warp *w, u32 m);
/* NULL, or what is wrong; *other: the other thread of the block, or the other block. */
const char *simt_race_shared(const struct simt_warp *w, u32 lane, u32 at, u32 bytes, enum simt_access kind, u32 *other);
const char *simt_race_global(const struct simt_warp *w, u32 lane, u64 address, u32 bytes, enum simt_access kind,
                             u32 *other);
/* ld.global.nc of what the same launch writes; always checked. */
const char *simt_race_nc(u64 address, u32 bytes, int is_nc, int is_write);

/* ---- what an executor defines ---- */
extern const char simt_form[]; /* "PTX" or "SASS": of variables and messages */
/* the instruction, where it is in the text */
void simt_describe(const struct simt_kernel *k, u32 pc, char *out, size_t room);
void simt_fill_registers(struct simt_warp *w); /* before a block starts: what the launch determines */
/* Runs until the warp waits for its block, has returned, only looks at memory that other blocks change, or has used its
 * turn. */
enum simt_ran { RAN, ONLY_LOOKED };
enum simt_ran simt_run_warp(struct simt_warp *w);
_Noreturn void simt_refuse(const char *format, ...) __attribute__((format(printf, 1, 2))); /* names file and line */

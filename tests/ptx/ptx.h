/* Compiled device code as a program: what the parser makes of PTX, and what the executor runs.
 *
 * What:    one struct ptx_insn for each instruction; operands are places in the register file of a warp.
 * Flow:    PTX text -> parse.c (directives) and decode.c (instructions) -> places.c (registers share places)
 *          -> struct simt_kernel by name.
 * Owner:   kernels live as long as the process.
 * Extend:  an instruction that works on each lane by itself is a row of ops.def. Others need a function in decode.c and
 *          one in exec.c. Anything unknown, down to a modifier, ends the process: nothing is guessed.
 */
#pragma once

#include "tests/simt/simt.h"

enum ptx_width { W_NONE, W_PRED, W16, W32, W64 };
enum ptx_type { T_NONE, T_U8, T_S8, T_U16, T_S16, T_U32, T_S32, T_U64, T_S64, T_F32, T_PRED };
#define PTX_RESULTS 8  /* of an instruction; mma.m8n8k4 has most ... */
#define PTX_SOURCES 12 /* ... of both */
enum ptx_space { S_GENERIC, S_GLOBAL, S_SHARED, S_LOCAL, S_CONST, S_PARAM };

enum ptx_op {
    OP_NONE,
#define ROW(kind, id, name, sources, expression) OP_##id,
#include "tests/ptx/ops.def"
#undef ROW
    OP_AND_PRED,
    OP_OR_PRED,
    OP_XOR_PRED,
    OP_NOT_PRED,
    OP_MOV_PRED,
    OP_SELECT,
    OP_COMPARE,
    OP_SPECIAL,
    OP_PACK,
    OP_UNPACK,
    OP_CONVERT,
    OP_TO_LOW,   /* to fp16 or bf16, one number or two */
    OP_FROM_LOW,
    OP_TO_SPACE,
    OP_TO_GENERIC,
    OP_LOAD,
    OP_STORE,
    OP_ATOMIC,
    OP_COPY,
    OP_COPY_COMMIT,
    OP_COPY_WAIT,
    OP_FENCE,
    OP_PROXY_FENCE,
    OP_SLEEP,
    OP_BARRIER_INIT, /* mbarrier */
    OP_BARRIER_ARRIVE,
    OP_BARRIER_WAIT,
    OP_TENSOR_COPY, /* cp.async.bulk.tensor */
    OP_BRANCH,
    OP_EXIT,
    OP_TRAP,
    OP_SHUFFLE, /* from here on: instructions at which threads of a warp or block meet */
    OP_VOTE,
    OP_MULTIPLY,    /* mma.sync */
    OP_LOAD_MATRIX, /* ldmatrix */
    OP_PRODUCT,     /* wgmma.mma_async */
    OP_PRODUCT_FENCE,
    OP_PRODUCT_COMMIT,
    OP_PRODUCT_WAIT,
    OP_WARP_BARRIER,
    OP_BLOCK_BARRIER,
};
enum ptx_compare { C_EQ, C_NE, C_LT, C_LE, C_GT, C_GE, C_EQU, C_NEU, C_LTU, C_LEU, C_GTU, C_GEU, C_NUM, C_NAN };
enum ptx_join { J_NONE, J_AND, J_OR, J_XOR };
enum ptx_round { R_EXACT, R_NEAR, R_NEAR_INTEGER, R_ZERO_INTEGER, R_DOWN_INTEGER, R_UP_INTEGER };
enum ptx_order { O_WEAK, O_RELAXED, O_ACQUIRE, O_RELEASE };
enum ptx_atomic { A_ADD, A_MIN, A_MAX, A_EXCH, A_OR, A_AND };
enum ptx_special { X_TID, X_NTID = 3, X_CTAID = 6, X_NCTAID = 9, X_LANEID = 12, X_WARPID, X_LANEMASK_LT };

struct ptx_insn {
    u8 op, type;
    u8 from;                /* source type of a conversion; format of 16 bits */
    u8 how;                 /* comparison, rounding, kind of a shuffle, vote, atomic or special register, layout */
    u8 join;                /* of a comparison with predicate ps[0] */
    u8 space, bytes, vec;   /* memory: bytes of an element, elements */
    u8 order, is_nc;        /* memory order; ld.global.nc */
    u8 wide_d, wide_s;      /* registers of 64 bits: d of loads and conversions; s of addresses, conversions, stores */
    u8 wide_value;
    s32 d[PTX_RESULTS];     /* places that are written; -1: none */
    s32 s[PTX_SOURCES];     /* that are read. A store: s[0] the address, then values */
    s32 pd[2], ps[2];       /* predicates that are written and read */
    u32 flip, guard_flip;   /* ps[0] negated; the guard negated */
    s32 guard;              /* @%p, -1: none */
    s64 imm, imm2;          /* displacements of addresses, a constant */
    u32 target;             /* of a branch */
    s32 *sum;               /* of wgmma: `sums` places that are read and written */
    u16 sums;
    u8 touches;             /* names a place that is a sum of wgmma */
    s32 line;
};

/* A generic address has its space in the top bits; nothing of this process is there. */
#define PTX_WINDOW(space) ((u64)(space) << 60)
#define PTX_WINDOW_OF(address) ((address) >> 60)

void ptx_read(const char *name, const char *text); /* a module; the same text again is ignored */
extern u8 *ptx_constants_begin, *ptx_constants_end; /* constant memory of all modules */

/* ---- between the parser's files ---- */

enum operand_kind { K_REGISTER, K_IMMEDIATE, K_ADDRESS, K_VECTOR, K_NAME, K_SPECIAL, K_SINK };
struct ptx_operand {
    enum operand_kind kind;
    enum ptx_width width;
    s32 place;              /* register or predicate; an address: -1 without register */
    int negated, is_pair;   /* !%p; comes after | */
    s64 value;              /* immediate, displacement, which special register */
    char name[96];          /* symbol or label */
    struct ptx_operand *part;
    int parts;
};
/* Parsed by parse.c, filled in by decode.c: opcode and operands into insn, whose lists are -1. */
void ptx_decode(struct simt_kernel *k, struct ptx_insn *insn, char *opcode, struct ptx_operand *operand, int operands);
s32 ptx_constant_place(struct simt_kernel *k, u64 value, enum ptx_width width);
u64 ptx_symbol(const char *name); /* its address */
void ptx_want_label(const char *name); /* target of the instruction that is decoded */
int ptx_target(void);                   /* 80: of compute_80 */
int ptx_target_is_a(void);              /* of compute_90a */
enum ptx_type ptx_type_named(const char *name);
enum ptx_width ptx_width_of(enum ptx_type t);
int ptx_bytes_of(enum ptx_type t);
void ptx_share_places(struct simt_kernel *k);

/* ---- execution ---- */

/* Executes one instruction of lanes m that neither branches nor meets. */
void ptx_execute(struct simt_warp *w, u32 pc, const struct ptx_insn *i, u32 m);
void ptx_load(struct simt_warp *w, u32 pc, const struct ptx_insn *i, u32 m);
void ptx_store(struct simt_warp *w, u32 pc, const struct ptx_insn *i, u32 m);
void ptx_atomic(struct simt_warp *w, u32 pc, const struct ptx_insn *i, u32 m);
void ptx_tensor_copy(struct simt_warp *w, u32 pc, const struct ptx_insn *i, u32 m);
void ptx_barrier(struct simt_warp *w, u32 pc, const struct ptx_insn *i, u32 m);
void ptx_copy(struct simt_warp *w, u32 pc, const struct ptx_insn *i, u32 m);
u64 ptx_address_of(const struct simt_warp *w, const struct ptx_insn *i, u32 lane);
u64 ptx_extend(u64 x, enum ptx_type t); /* to 64 bits, by its type */
/* matrix.c: instructions of a whole warp. */
void ptx_multiply(const struct simt_warp *w, u32 pc);
void ptx_load_matrix(const struct simt_warp *w, u32 pc);
/* products.c: wgmma, whose products go on after it. */
void ptx_products_begin(struct simt_warp *w); /* a block */
void ptx_product(struct simt_warp *w, u32 pc);
void ptx_product_fence(struct simt_warp *w);
void ptx_product_wait(struct simt_warp *w, u32 pc);
void ptx_touch(const struct simt_warp *w, u32 pc); /* by an instruction that `touches` */
void ptx_find_touches(struct simt_kernel *k);

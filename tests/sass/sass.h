/* Machine code as a program: what the parser makes of nvdisasm's text, and what the executor runs.
 *
 * What:    one struct sass_insn for each instruction; operands are rows of a warp's registers: see the rows below.
 * Flow:    nvdisasm's text and the cubin next to it -> module.c (sections), parse.c (text), decode.c (instructions) ->
 * struct simt_kernel by name
 *          -> warp.c (branches and meetings), exec.c (arithmetic), access.c (memory), products.c (HGMMA).
 * Owner:   kernels live as long as the process.
 * Extend:  a new instruction is a row of ops.def and a case in exec.c, access.c or warp.c; a new modifier is a row of
 * modifiers[] in decode.c. Anything unknown, down to a modifier, ends the process: nothing is guessed.
 */
#pragma once

#include "tests/simt/simt.h"

enum sass_op {
    SASS_NONE,
#define OP(name, operands, modifiers) SASS_##name,
#include "tests/sass/ops.def"
#undef OP
};

/* Rows of a warp, 128 bytes each. Every source is a row: immediate operands and words of constant memory have rows that
 * are filled before. What is written to RZ goes to SINK; uniform registers have the same value in every lane. */
enum {
    ROW_R = 0,      /* R0 to R254 */
    ROW_ZERO = 255, /* RZ and URZ, four words long */
    ROW_U = 260,    /* UR0 to UR254 */
    ROW_SINK = 516, /* four words */
    ROW_B = 520,    /* B0 to B15: the lanes that a convergence barrier waits for */
    ROW_CONSTANTS = 536
};
#define SASS_ROW(n) ((s32)((u32)(n)*SIMT_ROW))
#define SASS_BARRIERS 16

/* Predicates: P0 to P6, PT, UP0 to UP6, UPT, false, sink */
enum { PRED_TRUE = 7, PRED_U = 8, PRED_FALSE = 16, PRED_SINK, PREDS };

enum sass_compare {
    C_NONE, C_EQ, C_NE, C_LT, C_LE, C_GT, C_GE, C_NUM, C_NAN, C_EQU, C_NEU, C_LTU, C_LEU, C_GTU, C_GEU
};
enum sass_join { J_NONE, J_AND, J_OR, J_XOR };
enum sass_round { R_NEAR, R_DOWN, R_UP, R_ZERO };
enum sass_type { T_S32, T_U32, T_S64, T_U64, T_U8, T_S8, T_U16, T_S16 };
enum sass_integer { I_NEAREST, I_TRUNC, I_FLOOR, I_CEIL };
enum sass_how {
    H_NONE, H_ADD, H_MIN, H_MAX, H_AND, H_OR, H_XOR, H_EXCH, H_UP, H_DOWN, H_BFLY, H_IDX, H_ANY, H_RCP, H_RSQ,
    H_CLEAR, H_ARRIVE, H_WAIT
};
/* flags */
enum {
    WIDE = 1,
    HI = 2,
    X = 4,     /* carries come in */
    EX = 8,    /* the upper half of a comparison of 64 bits */
    SX32 = 16, /* the upper half is the sign of the lower one */
    FTZ = 32,
    NAN_WINS = 64,
    LEFT = 128,
    WRAP = 256,
    SHIFT = 512,     /* FLO: the distance from the top */
    EXTENDED = 1024, /* addresses of 64 bits */
    STRONG = 2048,
    DIVERGED = 4096,
    EVERY_LANE = 8192,
    UNIFORM = 16384,
    RELU = 32768, /* a negative result is 0 */
    ZERO_FILL = 65536,  /* LDGSTS: the low bits of the address count the zeros at the end */
    BRAIN = 131072,     /* bf16 */
    TRANSPOSED = 262144,
    ENDS_GROUP = 524288 /* HGMMA: the last one of its group */
};
enum { NEGATED = 1, ABSOLUTE = 2, INVERTED = 4 };

struct sass_insn {
    u8 op, compare, join, round, type, integer, how, bytes;
    u8 order; /* enum simt_access of a load, a store, an atomic */
    u32 flags;
    s32 d, s[4];     /* rows; the row of an operand that is not there is RZ */
    u8 sign[4];      /* NEGATED, ABSOLUTE, INVERTED */
    u8 byte[4];      /* .B0 to .B3: 1 to 4; .H0_H0, .H1_H1: 5, 6 */
    u8 pd[2], ps[3]; /* predicates; SINK, TRUE or FALSE where there is none */
    u32 flip[3];     /* of ps */
    u8 guard, barrier, bank;
    u32 guard_flip;
    s32 base[2], uniform[2]; /* addresses: shared or global; of a copy to and from: rows, uniform rows */
    u8 base_wide[2], scale[2];
    s64 offset[2];
    u32 target;
    s64 imm; /* a table, a mask, a count, a special register */
    s32 line;
};

/* What is known of an architecture: where the words of c[0x0] are. */
struct sass_layout {
    u32 params, ntid, nctaid, stack, descriptor, window;
    u32 generic; /* the generic address of the parameters, which copies of tensors use; 0: not known */
};

/* A word of c[0x0] that the kernel reads, with its row. */
struct sass_word {
    u32 at;
    s32 row;
};

/* A kernel that is read. */
struct sass_unit {
    struct simt_kernel *k;
    int arch; /* 90 */
    const struct sass_layout *layout;
    u32 first; /* byte of the parameters at which the kernel's only one begins: it may be aligned to 64 */
    const u8 *bank[4]; /* constant memory; bank 0 is the launch's */
    u32 bank_bytes[4];
    struct sass_word *word;
    int words;
};

enum sass_kind {
    K_NONE, K_REGISTER, K_PREDICATE, K_NUMBER, K_FLOAT, K_CONSTANT, K_ADDRESS, K_LABEL, K_SPECIAL, K_BARRIER,
    K_COUNTER, K_PREDICATES, K_MATRICES, K_GROUPS
};
struct sass_operand {
    enum sass_kind kind;
    int is_uniform; /* UR, UP */
    u32 number;     /* of a register, predicate, barrier, bank */
    u8 sign, byte;  /* sign of a predicate: NEGATED */
    s64 value;      /* a number, an offset */
    double real;
    s32 base, uniform; /* of an address: rows */
    u8 base_wide, scale;
    u32 target;
    char name[64]; /* label, special register */
};
/* Fills in insn from its mnemonic and operands. */
void sass_decode(const struct sass_unit *u, struct sass_insn *insn, const char *mnemonic,
                 const struct sass_operand *operand, int operands);
/* Rows whose words are known: a number, a word of constant memory; two or more in a row. */
s32 sass_number_row(struct simt_kernel *k, u64 value);
s32 sass_word_row(const struct sass_unit *u, u32 bank, u32 at);
void sass_known(const struct sass_unit *u, u32 bank,
                u32 at); /* refuses a word of constant memory that nothing defines */
void sass_parse(struct sass_unit *u, char **line, int first, int end); /* the lines of one kernel's section */
extern int sass_line;                                                  /* that is read */
extern const char *sass_file;

/* ---- execution ---- */

/* Executes one instruction of lanes m that neither branches nor meets. */
void sass_execute(struct simt_warp *w, u32 pc, const struct sass_insn *i, u32 m);
int sass_float(const struct simt_warp *w, const struct sass_insn *i,
               u32 m); /* 0: not an instruction of floating point */
/* 0: not an instruction of memory */
int sass_access(struct simt_warp *w, u32 pc, const struct sass_insn *i, u32 m);
u64 sass_address(const struct simt_warp *w, const struct sass_insn *i, int k, u32 lane);
int sass_matrix(const struct simt_warp *w, u32 pc, const struct sass_insn *i,
                u32 m);                                                          /* 0: not one of matrices or 16 bits */
int sass_product(struct simt_warp *w, u32 pc, const struct sass_insn *i, u32 m); /* 0: not one of products that go on */
void sass_products_begin(struct simt_warp *w); /* a block */
/* What is at a generic address in the parameters. */
const void *sass_parameters(const struct simt_warp *w, u32 pc, u32 lane, u64 address, u32 bytes);
u32 sass_constant(const struct simt_warp *w, u32 pc, u32 lane, u32 bank, u64 at); /* a word of constant memory */

static inline u32 *sass_row(const struct simt_warp *w, s32 place)
{
    return simt_row32(w, place);
}
static inline void sass_set(const struct simt_warp *w, u32 predicate, u32 m, u32 value)
{
    w->p[predicate] = (w->p[predicate] & ~m) | (value & m);
}
static inline u32 sass_get(const struct simt_warp *w, const struct sass_insn *i, int k)
{
    return w->p[i->ps[k]] ^ i->flip[k];
}
/* Lanes m of a register get the values; a uniform register gets the value of the first of them in every lane. */
void sass_put(const struct simt_warp *w, s32 place, u32 m, const u32 *value);

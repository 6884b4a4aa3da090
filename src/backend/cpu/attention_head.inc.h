/* Attention, forward and backward, one head of one sample at a time in a thread's scratch.
 * Compiled once per instruction set by ops_<isa>.c.
 *
 * Every product is a set of chains with lanes along the output's columns: a row-major operand is broadcast, the other
 * has its columns in vector registers, so scores need k (and v, backward) transposed, and all other products use rows
 * as they are.
 *
 *     s [q,k] = sum_d q[q,d] kT[d,k]      dp[q,k] = sum_d do[q,d] vT[d,k]
 *     o [q,d] = sum_k p[q,k] v[k,d]       dq[q,d] = sum_k ds[q,k] k[k,d]
 *     dk[k,d] = sum_q ds[q,k] q[q,d]      dv[k,d] = sum_q p[q,k] do[q,d]
 *
 * Forward, the scores of QUERIES queries against all their keys are in scratch: the maximum and the sum128 need whole
 * rows. Backward, they are known, and s and dp exist as squares of BLOCK queries and keys only: key blocks outside and
 * query blocks inside, both ascending, so that the chains of dq (over keys), dk and dv (over queries) continue from
 * block to block in their order.
 *
 * Work that cannot change a bit is skipped: keys after the last one attended to (p = +0), causal: keys after the query
 * and blocks of keys before the first of all queries of a block, and, backward, queries after the last whose gradient
 * is not zero: fma(0, x, s) = s for finite x, except for the sign of a zero, which every chain's + (+0) fixes. Keys
 * before the first of one query have a score of -inf there.
 *
 * Here: scratch and one head, whose products are in attention_forward.inc.h and attention_backward.inc.h. The
 * operations, which divide heads among threads, are in attention.inc.h. */

#define BLOCK RP_ATT_BLOCK
#define QUERIES RP_ATT_QUERIES
#define LDK (BLOCK + RP_ATT_SKEW) /* row stride of transposed blocks and of squares */
/* a row of scores ends with +0 up to a multiple of this: what a tile reads, and a vector more: end_row() */
#define ROW_END (W > TILE_ROWS ? W : TILE_ROWS)
#define VALUES 512 /* keys whose values stay in the cache for QUERIES queries */
#define AHEAD_MOST 256 /* longer sequences have no next head in the cache */

/* One thread's scratch, in floats; rp_cpu_attention_scratch() in ops.c adds up the same sizes. */
struct att_scratch {
    float *q, *g, *dq;  /* [seq, dim]; g: do; forward: q and the chains of o (in g) of QUERIES rows */
    float *kt, *vt;     /* [dim, LDK]: transposed keys and values of a block; forward: kt of every block */
    float *k, *dk, *dv; /* [BLOCK, dim] */
    float *v;           /* [seq, dim] */
    float *s, *dp;      /* [BLOCK, LDK]; forward: s [QUERIES, seq + SKEW] */
    float *bias;        /* [seq]: 0 attended to, -inf masked */
    float *big_d;       /* [seq] */
    uint8_t *bits;      /* [seq / 8]: as in a mask of decisions, 1 attended to */
};

static float *att_take(float **memory, long floats)
{
    float *p = *memory;
    *memory = p + floats;
    return p;
}

static struct att_scratch att_scratch_of(float *memory, size_t bytes, long seq, long dim, int backward)
{
    const float *start = memory;
    const long n = rp_mask_stride(seq), ldc = padded(dim), square = BLOCK * LDK;
    struct att_scratch t = {0};
    t.q = att_take(&memory, (backward ? n : QUERIES) * ldc);
    t.g = att_take(&memory, (backward ? n : QUERIES) * ldc);
    t.kt = att_take(&memory, (backward ? 1 : n / BLOCK) * dim * LDK);
    t.s = att_take(&memory, backward ? square : QUERIES * (n + RP_ATT_SKEW));
    if (backward) {
        t.dq = att_take(&memory, n * ldc);
        t.vt = att_take(&memory, dim * LDK);
        t.k = att_take(&memory, BLOCK * ldc);
        t.dk = att_take(&memory, BLOCK * ldc);
        t.dv = att_take(&memory, BLOCK * ldc);
        t.dp = att_take(&memory, square);
        t.big_d = att_take(&memory, n);
    } else {
        t.v = att_take(&memory, n * ldc);
    }
    t.bias = att_take(&memory, n);
    t.bits = (uint8_t *)att_take(&memory, n / 32);
    RP_BUG_IF((size_t)(memory - start) * sizeof *memory > bytes);
    return t;
}

/* ---- one head ---- */

struct att_job {
    struct rp_cpu *cpu;
    const struct rp_attention *a;
    const float *qkv, *d_o, *o;
    float *out, *row_max, *row_inv; /* out: o forward, dqkv backward */
    const float *max_in, *inv_in;
    uint8_t *mask;
    const uint8_t *decided;
    float *work; /* 64-row sums of dqkv, [block, 3*width], or NULL when blocks straddle samples */
    struct decider decider;
    int heads_each; /* heads of one sample per part */
    int splits;     /* parts of one head */
    long width;
};

struct head {
    const struct att_job *o;
    struct att_scratch t;
    long seq, dim, ld, ldc, keys; /* ldc: of rows in scratch; keys: up to the last attended to */
    long sample, row0, q0, o0;    /* row0: of row_max and mask; q0, o0: first element in qkv and in o */
    const int32_t *first;         /* of each query: the first key it attends to; NULL: 0 */
    int holes;                    /* some of the keys are masked: t.bias, t.bits */
    struct ahead ahead;
};

/* The next head; nothing if it is not in this part. */
static struct ahead ahead_of(const struct att_job *o, const struct head *x, int next)
{
    const float *q = o->qkv + x->q0 + x->dim;
    struct ahead a = {.from = {q, q + o->width, q + 2 * o->width}, .ld = {x->ld, x->ld, x->ld}, .tensors = 3,
                      .lines = (int)((x->dim * 4 + 63) / 64), .rows = x->seq};
    if (o->d_o) {
        a.from[3] = o->d_o + x->o0 + x->dim;
        a.from[4] = o->o + x->o0 + x->dim;
        a.ld[3] = a.ld[4] = o->width;
        for (int i = 0; i < 3; i++) {
            a.from[5 + i] = o->out + x->q0 + x->dim + i * o->width;
            a.ld[5 + i] = x->ld;
        }
        a.tensors = 8;
    }
    a.tensor = next ? 0 : a.tensors;
    return a;
}

/* x->keys, and which of them are masked. */
static void find_keys(struct head *x, const uint8_t *attend)
{
    x->keys = x->seq;
    if (!attend)
        return;
    while (x->keys > 0 && !attend[x->keys - 1])
        x->keys--;
    for (long k = 0; k < x->keys; k++)
        x->holes |= !attend[k];
    if (!x->holes)
        return;
    memset(x->t.bits, 0, (size_t)rp_mask_stride(x->seq) / 8);
    for (long k = 0; k < rp_mask_stride(x->keys); k++) {
        int yes = k < x->keys && attend[k];
        x->t.bias[k] = yes ? 0.0f : -__builtin_inff();
        x->t.bits[k / 8] = (uint8_t)(x->t.bits[k / 8] | yes << (k & 7));
    }
}

static struct head head_of(const struct att_job *o, long sample, long h, int thread)
{
    const struct rp_attention *a = o->a;
    struct head x = {.o = o, .seq = a->seq, .dim = a->head_dim, .ld = 3 * o->width, .ldc = padded(a->head_dim),
                     .sample = sample, .row0 = (sample * a->heads + h) * a->seq};
    x.t = att_scratch_of(rp_cpu_scratch(o->cpu, thread), o->cpu->scratch_each, a->seq, a->head_dim, o->d_o != NULL);
    x.q0 = sample * a->seq * x.ld + h * a->head_dim;
    x.o0 = sample * a->seq * o->width + h * a->head_dim;
    x.first = a->first_key ? a->first_key + sample * a->seq : NULL;
    find_keys(&x, a->key_mask ? a->key_mask + sample * a->seq : NULL);
    x.ahead = ahead_of(o, &x, a->seq <= AHEAD_MOST && o->splits == 1 && h + 1 < a->heads && (h + 1) % o->heads_each);
    return x;
}

/* Query q attends to keys before this one only. */
static long keys_of(const struct head *x, long q)
{
    return x->o->a->causal ? q + 1 : x->keys;
}

/* The block in which the keys of queries from q on begin; a multiple of 128, so that a sum128 may begin there. */
static long keys_begin(const struct head *x, long q)
{
    _Static_assert(BLOCK % 128 == 0, "lanes of sum128");
    return x->first ? x->first[q] / BLOCK * BLOCK : 0;
}

static long row_end(long n)
{
    return (n + ROW_END - 1) / ROW_END * ROW_END;
}

/* Scores that become +0 where they are exponentials: of n keys from k0 on, those before the first of query q, and what
 * follows them. */
static void cut_row(const struct head *x, float *s, long q, long k0, long n)
{
    const long end = row_end(n), first = x->first ? least_of(x->first[q] - k0, n) : 0;
    for (long k = 0; k < first; k++)
        s[k] = -__builtin_inff();
    for (; n < end; n++)
        s[n] = -__builtin_inff();
}

/* A tile reads as many columns of its rows as the last of them has: more than row_end() of the others, where tiles do
 * not divide it. */
RP_LANE void end_row(float *end)
{
    _Static_assert(ROW_END % TILE_ROWS == 0 || TILE_ROWS <= W + 1, "less than a vector");
    if (ROW_END % TILE_ROWS)
        vstore(end, vset1(0.0f));
}

/* Products whose long sum is divided into parts.
 *
 * The tree over all T parts consists of complete subtrees over [lo, hi), hi - lo a power of two that divides lo, which
 * are joined from the right at the end: 13 parts are 8 + (4 + 1). A rank with parts [first, first + count) computes the
 * largest such subtrees within them, its nodes: one if count is a power of two. Every rank then gets its share of the
 * rows of all nodes, joins them in order, and gives the result to the others:
 *
 *   rank 0: node a [rows, width] -> rows of rank 0 | rows of rank 1     all to all
 *   rank 1: node b               -> rows of rank 0 | rows of rank 1
 *   rank 0: a + b (+ bias or addend) of its rows, rank 1 of its own     -> all gather */
#include "model/nn/linear.h"

#include "base/buf.h"

#define NODES_MAX 16 /* of a rank: parts of up to 64, at most two of each size */

/* A product of this rank's share of the k steps. */
struct parts {
    struct rp_net *m;
    struct rp_gemm g; /* of all own parts; c [m, n] without gaps */
    int count, pieces; /* own parts; matrices side by side */
};

/* The sum of parts [lo, hi). */
struct part_sum {
    int lo, hi;
    float *sum;
};

/* Own part p of a matrix [rows, k] whose k columns are `pieces` matrices side by side: gathered if there are
 * several. */
static const rp_stored *part_of(const struct parts *s, const rp_stored *x, long *ld, int rows, int p,
                                rp_stored *gathered)
{
    struct rp_dev *dev = s->m->dev;
    const long each = s->g.k / s->count / s->pieces, wide = each * s->pieces;
    if (s->pieces == 1)
        return rp_stored_at(dev, x, p * each);
    for (int i = 0; i < s->pieces; i++)
        dev->op->copy_columns(dev, rp_stored_at(dev, gathered, i * each), wide,
                              rp_stored_at(dev, x, (i * s->count + p) * each), *ld, rows, (int)each,
                              (int)dev->stored_bytes);
    *ld = wide;
    return gathered;
}

static void part_product(const struct parts *s, int p, float *out)
{
    struct rp_dev *dev = s->m->dev;
    struct rp_gemm g = s->g;
    g.k /= s->count;
    g.segment = rp_segment(g.k);
    g.a = part_of(s, s->g.a, &g.lda, g.m, p, s->m->gathered);
    if (g.tb)
        g.b = part_of(s, s->g.b, &g.ldb, g.n, p, rp_stored_at(dev, s->m->gathered, (long)g.m * g.k));
    else
        g.b = rp_stored_at(dev, g.b, (long)p * g.k * g.ldb);
    g.c = NULL;
    g.c32 = out;
    dev->op->gemm(dev, &g);
}

/* The tree over own parts lo to lo + n - 1 into `out`, with scratch from `spare` on. */
static void part_tree(const struct parts *s, int lo, int n, float *out, float *spare)
{
    const size_t size = (size_t)s->g.m * (size_t)s->g.n;
    if (n == 1) {
        part_product(s, lo, out);
        return;
    }
    int left = (int)rp_tree_split(n);
    part_tree(s, lo, left, out, spare);
    part_tree(s, lo + left, n - left, spare, spare + size);
    s->m->dev->op->add(s->m->dev, out, out, spare, size);
}

/* The nodes of a rank; returns their number. */
static int nodes_of(const struct rp_net *m, int rank, struct part_sum node[NODES_MAX])
{
    const int count = m->parallel / rp_net_ranks(m), hi = (rank + 1) * count;
    int n = 0, size;
    for (int lo = rank * count; lo < hi; lo += size) {
        for (size = 1; lo % (2 * size) == 0 && lo + 2 * size <= hi;)
            size *= 2;
        RP_BUG_IF(n == NODES_MAX);
        node[n++] = (struct part_sum){.lo = lo, .hi = lo + size};
    }
    return n;
}

static int rows_per_rank(const struct rp_net *m, int rows)
{
    return (rows + rp_net_ranks(m) - 1) / rp_net_ranks(m);
}

/* ---- nodes of all ranks ---- */

/* Rows [from, to) of every node of every rank, in order. The stack is a binary counter, as in optim/grad_tree.h. */
struct sum_join {
    struct rp_net *m;
    struct part_sum *node;
    int n;
    size_t size; /* floats of a node's rows */
};

static void join_last(struct sum_join *j)
{
    struct part_sum *a = &j->node[j->n - 2], *b = &j->node[j->n - 1];
    if (j->size)
        j->m->dev->op->add(j->m->dev, a->sum, a->sum, b->sum, j->size);
    a->hi = b->hi;
    j->n--;
}

static void join_push(struct sum_join *j, const struct part_sum *x)
{
    j->node[j->n++] = *x;
    while (j->n >= 2) {
        const struct part_sum *a = &j->node[j->n - 2], *b = &j->node[j->n - 1];
        if (b->hi - b->lo != a->hi - a->lo || a->lo % (2 * (a->hi - a->lo)) != 0)
            break;
        join_last(j);
    }
}

/* Sends every rank its rows of the own nodes, and receives the own rows of its nodes, in order of ranks. */
static void all_to_all_nodes(const struct parts *s, const struct part_sum *own, int nodes)
{
    struct rp_net *m = s->m;
    const int ranks = rp_net_ranks(m), rank = rp_net_rank(m), wide = s->g.n;
    const int from = rp_net_share(m, s->g.m, rank), rows = rp_net_share(m, s->g.m, rank + 1) - from;
    RP_FREE struct rp_transfer *t = rp_alloc(2 * (size_t)ranks * NODES_MAX * sizeof *t);
    float *to = m->received;
    int n = 0;
    for (int i = 0; i < ranks; i++) {
        struct part_sum node[NODES_MAX];
        const int at = rp_net_share(m, s->g.m, i), its = rp_net_share(m, s->g.m, i + 1) - at;
        for (int k = 0; i != rank && k < nodes; k++)
            t[n++] = (struct rp_transfer){i, 1, own[k].sum + (long)at * wide, (size_t)its * (size_t)wide * sizeof *to};
        for (int k = 0; i != rank && k < nodes_of(m, i, node); k++, to += (long)rows * wide)
            t[n++] = (struct rp_transfer){i, 0, to, (size_t)rows * (size_t)wide * sizeof *to};
    }
    rp_net_exchange(m, RP_GROUP_TENSOR, t, n);
}

/* The own rows of the tree over all ranks' nodes. */
static float *join_nodes(const struct parts *s, const struct part_sum *own)
{
    struct rp_net *m = s->m;
    const int ranks = rp_net_ranks(m), rank = rp_net_rank(m);
    const int from = rp_net_share(m, s->g.m, rank), rows = rp_net_share(m, s->g.m, rank + 1) - from;
    RP_FREE struct part_sum *stack = rp_alloc((size_t)ranks * NODES_MAX * sizeof *stack);
    struct sum_join j = {.m = m, .node = stack, .size = (size_t)rows * (size_t)s->g.n};
    float *to = m->received;
    for (int i = 0; i < ranks; i++) {
        struct part_sum node[NODES_MAX];
        const int n = nodes_of(m, i, node);
        for (int k = 0; k < n; k++) {
            node[k].sum = i == rank ? own[k].sum + (long)from * s->g.n : to;
            to += i == rank ? 0 : j.size;
            join_push(&j, &node[k]);
        }
    }
    while (j.n >= 2)
        join_last(&j);
    return stack[0].sum;
}

/* ---- products ---- */

/* Rows of c from their sum, with bias or addend. */
static void finish_product(const struct parts *s, const struct rp_gemm *g, const float *sum, int from, int rows)
{
    struct rp_dev *dev = s->m->dev;
    const long at = (long)from * g->n;
    rp_stored *c = rp_stored_at(dev, g->c, at);
    if (!rows)
        return;
    if (g->bias)
        dev->op->bias_add(dev, c, sum, g->bias, rows, g->n);
    else
        dev->op->round_stored(dev, c, sum, g->add ? rp_stored_at(dev, g->add, at) : NULL, (size_t)rows * (size_t)g->n);
}

/* In parts: the operands are not needed again when c is written, so that c may be one of them only with add. */
static void compute_product(struct rp_net *m, struct rp_gemm *g, int pieces)
{
    struct parts s = {.m = m, .g = *g, .count = m->parallel / rp_net_ranks(m), .pieces = pieces};
    const int ranks = rp_net_ranks(m), rank = rp_net_rank(m);
    const size_t size = (size_t)g->m * (size_t)g->n;
    struct part_sum own[NODES_MAX];
    if (m->parallel == 1) {
        m->dev->op->gemm(m->dev, g);
        return;
    }
    RP_BUG_IF(g->ldc != g->n || (g->add && g->ldadd != g->n) || (g->add && g->bias));
    s.g.bias = NULL;
    s.g.add = NULL;
    if (ranks == 1) {
        part_tree(&s, 0, s.count, m->partial, m->partial + size);
        finish_product(&s, g, m->partial, 0, g->m);
        return;
    }
    const int nodes = nodes_of(m, rank, own), from = rp_net_share(m, g->m, rank);
    for (int k = 0; k < nodes; k++) {
        own[k].sum = m->partial + (size_t)k * size;
        part_tree(&s, own[k].lo - rank * s.count, own[k].hi - own[k].lo, own[k].sum,
                  m->partial + (size_t)(k + 1) * size);
    }
    all_to_all_nodes(&s, own, nodes);
    finish_product(&s, g, join_nodes(&s, own), from, rp_net_share(m, g->m, rank + 1) - from);
    RP_FREE int *at = rp_alloc((size_t)(ranks + 1) * sizeof *at);
    for (int i = 0; i <= ranks; i++)
        at[i] = rp_net_share(m, g->m, i);
    rp_net_gather_rows(m, g->c, at, g->n);
}

/* Buffers of [rows, width] that the own parts take at once: one for each node, and the tree of the node that is being
 * computed. */
static int buffers_of(int count, int nodes)
{
    int levels = 0;
    for (int n = count; n > 1; n = (n + 1) / 2)
        levels++;
    return nodes + levels;
}

void rp_linear_use_parts(struct rp_net *m, int rows, int width, int depth, int pieces)
{
    const int count = m->parallel / rp_net_ranks(m), k = depth / count;
    const size_t size = (size_t)rows * (size_t)width;
    struct part_sum node[NODES_MAX];
    int others = 0;
    rp_net_use(
        m, (struct rp_op_use){.op = RP_OP_gemm, .rows = rows, .width = width, .depth = k, .segment = rp_segment(k)});
    if (m->parallel == 1)
        return;
    for (int i = 0; i < rp_net_ranks(m); i++)
        others += i == rp_net_rank(m) ? 0 : nodes_of(m, i, node);
    const int nodes = rp_net_ranks(m) > 1 ? nodes_of(m, rp_net_rank(m), node) : 1;
    rp_net_parts(m, (size_t)buffers_of(count, nodes) * size,
                 pieces > 1 ? ((size_t)rows + (size_t)width) * (size_t)k : 0);
    rp_net_reserve_received(m, (size_t)others * (size_t)rows_per_rank(m, rows) * (size_t)width);
    rp_net_use_rows(m, RP_OP_copy_columns, rows, width);
    rp_net_use_rows(m, RP_OP_bias_add, rows, width);
    rp_net_use_rows(m, RP_OP_round_stored, rows, width);
}

void rp_linear_forward_parts(struct rp_net *m, const struct rp_linear *l, rp_stored *y, const rp_stored *x)
{
    struct rp_gemm g = rp_linear_forward_gemm(l, y, x);
    compute_product(m, &g, 1);
}

void rp_linear_dgrad_parts(struct rp_net *m, const struct rp_linear *l, rp_stored *dx, const rp_stored *dy,
                           const rp_stored *add, int pieces)
{
    struct rp_gemm g = rp_linear_dgrad_gemm(l, dx, dy, add);
    compute_product(m, &g, pieces);
}

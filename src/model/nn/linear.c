#include "model/nn/linear.h"

/* A product whose k steps are divided into parts. */
struct parts {
    struct rp_net *m;
    struct rp_gemm g; /* of the whole; c [m, n] without gaps */
    int count, pieces;
};

/* Part p of a matrix [rows, k] whose k columns are `pieces` matrices side by side: gathered if there are several. */
static const float *part_of(const struct parts *s, const float *x, long *ld, int rows, int p, float *gathered)
{
    const long each = s->g.k / s->count / s->pieces, wide = each * s->pieces;
    if (s->pieces == 1)
        return x + p * each;
    for (int i = 0; i < s->pieces; i++)
        s->m->dev->op->copy_columns(s->m->dev, gathered + i * each, wide, x + (i * s->count + p) * each, *ld, rows, (int)each);
    *ld = wide;
    return gathered;
}

static void part_product(const struct parts *s, int p, float *out)
{
    struct rp_gemm g = s->g;
    g.k /= s->count;
    g.segment = rp_segment(g.k);
    g.a = part_of(s, s->g.a, &g.lda, g.m, p, s->m->gathered);
    if (g.tb)
        g.b = part_of(s, s->g.b, &g.ldb, g.n, p, s->m->gathered + (long)g.m * g.k);
    else
        g.b += (long)p * g.k * g.ldb;
    g.c = out;
    s->m->dev->op->gemm(s->m->dev, &g);
}

/* The tree over parts lo to lo + n - 1 into `out`, with scratch from `spare` on. */
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

/* In parts: the operands are not needed again when c is written, so that c may be one of them only with add. */
static void product(struct rp_net *m, struct rp_gemm *g, int pieces)
{
    struct parts s = {.m = m, .g = *g, .count = m->parallel, .pieces = pieces};
    const size_t size = (size_t)g->m * (size_t)g->n;
    if (m->parallel == 1) {
        m->dev->op->gemm(m->dev, g);
        return;
    }
    s.g.bias = s.g.add = NULL;
    part_tree(&s, 0, s.count, m->partial, m->partial + size);
    if (g->bias)
        m->dev->op->bias_add(m->dev, g->c, m->partial, g->bias, g->m, g->n);
    else if (g->add)
        m->dev->op->add(m->dev, g->c, m->partial, g->add, size);
    else
        m->dev->op->copy_columns(m->dev, g->c, g->ldc, m->partial, g->n, g->m, g->n);
}

void rp_linear_use_parts(struct rp_net *m, int rows, int width, int depth, int pieces)
{
    const int k = depth / m->parallel;
    rp_net_use(m, (struct rp_op_use){.op = RP_OP_gemm, .rows = rows, .width = width, .depth = k, .segment = rp_segment(k)});
    rp_net_parts(m, rows, width, pieces > 1 ? ((size_t)rows + (size_t)width) * (size_t)k : 0);
}

void rp_linear_forward_parts(struct rp_net *m, float *y, const float *x, const float *w, const float *b, int rows, int in, int out,
                             int in_first)
{
    struct rp_gemm g = rp_linear_forward_gemm(y, x, w, b, rows, in, out, in_first);
    product(m, &g, 1);
}

void rp_linear_dgrad_parts(struct rp_net *m, float *dx, const float *dy, const float *w, const float *add, int rows, int in, int out,
                           int in_first, int pieces)
{
    struct rp_gemm g = rp_linear_dgrad_gemm(dx, dy, w, add, rows, in, out, in_first);
    product(m, &g, pieces);
}

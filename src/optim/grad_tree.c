#include "optim/grad_tree.h"

#include "base/err.h"

int rp_grad_tree_siblings(int64_t lo, int64_t mid, int64_t hi)
{
    return mid - lo == hi - mid && lo % (2 * (mid - lo)) == 0;
}

int rp_grad_tree_blocks(int64_t first, int64_t leaves)
{
    int64_t lo[64];
    int n = 0, most = 0;
    for (int64_t i = first; i < first + leaves; i++) {
        lo[n++] = i;
        most = n > most ? n : most;
        for (; n >= 2 && rp_grad_tree_siblings(lo[n - 2], lo[n - 1], i + 1); n--)
            ;
    }
    return most;
}

void rp_grad_tree_init(struct rp_grad_tree *t, struct rp_dev *dev, float *const *block, int blocks, size_t floats)
{
    *t = (struct rp_grad_tree){.dev = dev, .block = block, .blocks = blocks, .floats = floats};
}

float *rp_grad_tree_leaf(struct rp_grad_tree *t)
{
    RP_BUG_IF(t->n >= t->blocks);
    return t->block[t->n];
}

/* Merges the two nodes on top. */
static void merge_top(struct rp_grad_tree *t)
{
    int a = t->n - 2, b = t->n - 1;
    if (t->floats)
        t->dev->op->add(t->dev, t->block[a], t->block[a], t->block[b], t->floats);
    t->node[a].sum.loss += t->node[b].sum.loss;
    for (int i = 0; i < RP_LOSS_PARTS_MAX; i++)
        t->node[a].sum.part[i] += t->node[b].sum.part[i];
    t->node[a].hi = t->node[b].hi;
    t->n--;
}

void rp_grad_tree_push_node(struct rp_grad_tree *t, int64_t lo, int64_t hi, const struct rp_losses *l)
{
    RP_BUG_IF(t->n > 0 && t->node[t->n - 1].hi != lo);
    t->node[t->n].lo = lo;
    t->node[t->n].hi = hi;
    t->node[t->n++].sum = *l;
    while (t->n >= 2 && rp_grad_tree_siblings(t->node[t->n - 2].lo, t->node[t->n - 1].lo, t->node[t->n - 1].hi))
        merge_top(t);
}

void rp_grad_tree_push(struct rp_grad_tree *t, int64_t index, const struct rp_losses *l)
{
    rp_grad_tree_push_node(t, index, index + 1, l);
}

void rp_grad_tree_merge_early(const struct rp_grad_tree *t, int64_t index, size_t at, size_t floats)
{
    int64_t lo = index;
    for (int a = t->n - 1; a >= 0 && rp_grad_tree_siblings(t->node[a].lo, lo, index + 1); a--) {
        t->dev->op->add(t->dev, t->block[a] + at, t->block[a] + at, t->block[a + 1] + at, floats);
        lo = t->node[a].lo;
    }
}

void rp_grad_tree_push_merged(struct rp_grad_tree *t, int64_t index, const struct rp_losses *l)
{
    const size_t floats = t->floats;
    t->floats = 0;
    rp_grad_tree_push(t, index, l);
    t->floats = floats;
}

void rp_grad_tree_finish(struct rp_grad_tree *t, struct rp_losses *l)
{
    RP_BUG_IF(t->n < 1 || t->node[0].lo != 0);
    while (t->n >= 2) /* from the right: 13 leaves are 8 + (4 + 1) */
        merge_top(t);
    *l = t->node[0].sum;
}

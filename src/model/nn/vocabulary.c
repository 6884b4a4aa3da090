/* Lookups of t ranks, in order of ranks: place[] of a lookup is where its row lies after all ranks have gathered
 * theirs.
 *
 * Loss of rows that ranks divide (t = 2, columns A of rank 0, B of rank 1):
 *   rank 0: A of all rows          rank 1: B of all rows
 *   rank 0: A B of the first half  rank 1: A B of the second      all to all; softmax_xent
 *   rank 0: dA of all rows         rank 1: dB of all rows         all to all
 * Both take V/t elements of each row, about as many bytes as one layer of a model whose vocabulary is 32 times as large
 * as its width. */
#include "model/nn/vocabulary.h"

#include "base/buf.h"

#include <string.h>

void rp_nn_lookup_declare(struct rp_net *m, struct rp_nn_lookup *l, int rows)
{
    struct rp_tensors *list = &m->tensors[RP_INPUT];
    if (rp_net_ranks(m) == 1)
        return;
    RP_BUG_IF(rp_net_ranks(m) > RP_TENSOR_RANKS_MAX);
    rp_tensors_add(list,
                   &(struct rp_tensor){.name = "own rows of lookups", .at = &l->own, .dtype = RP_I32, .dim = {rows}});
    rp_tensors_add(list,
                   &(struct rp_tensor){.name = "places of lookups", .at = &l->place, .dtype = RP_I32, .dim = {rows}});
    for (int i = 0; i < rp_net_ranks(m); i++)
        rp_net_count(m, &l->count[i]);
}

void rp_nn_lookup_prepare(const struct rp_net *m, struct rp_nn_lookup *l, const int32_t *ids, int rows, int each)
{
    const int ranks = rp_net_ranks(m), rank = rp_net_rank(m);
    int at[RP_TENSOR_RANKS_MAX + 1] = {0};
    if (ranks == 1)
        return;
    memset(l->count, 0, sizeof l->count);
    for (int i = 0; i < rows; i++)
        l->count[ids[i] / each]++;
    for (int i = 0; i < ranks; i++)
        at[i + 1] = at[i] + l->count[i];
    const int first = at[rank];
    for (int i = 0; i < rows; i++) {
        const int owner = ids[i] / each;
        if (owner == rank)
            l->own[at[owner] - first] = ids[i] - rank * each;
        l->place[i] = at[owner]++;
    }
}

void rp_nn_lookup_rows(struct rp_net *m, const struct rp_nn_lookup *l, rp_stored *x, const rp_stored *part, int width)
{
    const int rank = rp_net_rank(m);
    int at[RP_TENSOR_RANKS_MAX + 1] = {0};
    for (int i = 0; i < rp_net_ranks(m); i++)
        at[i + 1] = at[i] + l->count[i];
    if (l->count[rank])
        m->dev->op->gather_rows(m->dev, rp_stored_at(m->dev, x, (long)at[rank] * width), part, l->own, l->count[rank],
                                width);
    rp_net_gather_rows(m, x, at, width);
}

/* ---- loss ---- */

/* The most rows of a rank. */
static int share_most(const struct rp_net *m, int n)
{
    return (n + rp_net_ranks(m) - 1) / rp_net_ranks(m);
}

void rp_nn_loss_declare(struct rp_net *m, struct rp_nn_loss *l, int rows, int each)
{
    const int ranks = rp_net_ranks(m), most = share_most(m, rows);
    rp_net_use_rows(m, RP_OP_softmax_xent, ranks > 1 ? most : rows, (long)each * ranks);
    if (ranks == 1)
        return;
    rp_tensors_add(&m->tensors[RP_SCRATCH], &(struct rp_tensor){.name = "logits of own rows", .at = &l->whole,
                                                                .dtype = RP_STORED, .dim = {most, (long)each * ranks}});
    rp_net_use_rows(m, RP_OP_copy_columns, most, each);
    rp_net_reserve_received(m, (size_t)(ranks - 1) * (size_t)most * (size_t)each);
}

/* Every rank sends each other rank its columns of that rank's rows of logits [n, each], and gets that rank's columns of
 * its own rows in `received`, one rank after the other. back: returns them, with the losses of its own rows. */
static void all_to_all_columns(struct rp_net *m, rp_stored *logits, float *loss, int n, int each, int back)
{
    const int ranks = rp_net_ranks(m), rank = rp_net_rank(m), from = rp_net_share(m, n, rank),
              rows = rp_net_share(m, n, rank + 1) - from;
    struct rp_transfer t[4 * RP_TENSOR_RANKS_MAX];
    const size_t row = (size_t)each * m->dev->stored_bytes;
    char *own = m->received;
    int k = 0;
    for (int i = 0; i < ranks; i++) {
        const int at = rp_net_share(m, n, i), its = rp_net_share(m, n, i + 1) - at;
        if (i == rank)
            continue;
        t[k++] = (struct rp_transfer){i, !back, (char *)logits + (size_t)at * row, (size_t)its * row};
        t[k++] = (struct rp_transfer){i, back, own, (size_t)rows * row};
        own += (size_t)rows * row;
        if (!back)
            continue;
        t[k++] = (struct rp_transfer){i, 1, loss + from, (size_t)rows * sizeof *loss};
        t[k++] = (struct rp_transfer){i, 0, loss + at, (size_t)its * sizeof *loss};
    }
    rp_net_exchange(m, RP_GROUP_TENSOR, t, k);
}

/* Between the own rows of all columns in l->whole, and where all_to_all_columns() takes or leaves them. */
static void copy_pieces(struct rp_net *m, const struct rp_nn_loss *l, rp_stored *own_columns, int rows, int each,
                        int back)
{
    struct rp_dev *dev = m->dev;
    const int bytes = (int)dev->stored_bytes;
    const long wide = (long)each * rp_net_ranks(m);
    rp_stored *piece = m->received;
    for (int i = 0; i < rp_net_ranks(m); i++) {
        rp_stored *x = i == rp_net_rank(m) ? own_columns : piece, *y = rp_stored_at(dev, l->whole, (long)i * each);
        if (back)
            dev->op->copy_columns(dev, x, each, y, wide, rows, each, bytes);
        else
            dev->op->copy_columns(dev, y, wide, x, each, rows, each, bytes);
        if (i != rp_net_rank(m))
            piece = rp_stored_at(dev, piece, (long)rows * each);
    }
}

void rp_nn_loss(struct rp_net *m, const struct rp_nn_loss *l, float *loss, rp_stored *logits, const int32_t *labels,
                const float *coef, int n, int each)
{
    const int ranks = rp_net_ranks(m), rank = rp_net_rank(m), from = rp_net_share(m, n, rank),
              rows = rp_net_share(m, n, rank + 1) - from;
    if (ranks == 1) {
        m->dev->op->softmax_xent(m->dev, loss, logits, each, labels, coef, m->loss_scale, n, each, m->parallel);
        return;
    }
    all_to_all_columns(m, logits, loss, n, each, 0);
    if (rows) {
        rp_stored *own = rp_stored_at(m->dev, logits, (long)from * each);
        copy_pieces(m, l, own, rows, each, 0);
        m->dev->op->softmax_xent(m->dev, loss + from, l->whole, (long)each * ranks, labels + from, coef + from,
                                 m->loss_scale, rows, each * ranks, m->parallel);
        copy_pieces(m, l, own, rows, each, 1);
    }
    all_to_all_columns(m, logits, loss, n, each, 1);
}

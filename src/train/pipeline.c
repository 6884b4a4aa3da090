#include "train/pipeline.h"

#include "base/buf.h"

#include <math.h>

int rp_pipeline_sets(const struct rp_comm *c, int64_t own)
{
    const int left = c->size[RP_GROUP_PIPELINE] - c->rank[RP_GROUP_PIPELINE];
    return own < left ? (int)own : left;
}

/* ---- the schedule ---- */

/* One message with the stage before (by -1) or after (1) about own micro-batch i; none at the ends of the pipeline. */
static int make_transfer(const struct rp_train *t, struct rp_transfer *m, int by, int send, int64_t i)
{
    const struct rp_net *net = t->set[i % t->sets];
    const int peer = t->comm->rank[RP_GROUP_PIPELINE] + by;
    if (peer < 0 || peer >= t->comm->size[RP_GROUP_PIPELINE])
        return 0;
    *m = (struct rp_transfer){peer, send, *net->boundary, net->boundary_elements * net->dev->stored_bytes};
    return 1;
}

static int send_messages(struct rp_train *t, const struct rp_transfer *m, int n, struct rp_err *err)
{
    if (n)
        rp_net_exchange(t->net, RP_GROUP_PIPELINE, m, n);
    return rp_net_exchanged(t->net, err);
}

static int transfer_boundary(struct rp_train *t, int by, int send, int64_t i, struct rp_err *err)
{
    struct rp_transfer m;
    const int n = make_transfer(t, &m, by, send, i);
    return n ? send_messages(t, &m, n, err) : 0;
}

static int forward(struct rp_train *t, int64_t i, int64_t step, struct rp_grad_tree *tree, struct rp_losses *l,
                   struct rp_err *err)
{
    if (transfer_boundary(t, -1, 0, i, err) < 0 || rp_train_forward(t, i, step, rp_grad_tree_leaf(tree), l, err) < 0)
        return -1;
    t->micro_loss[i] = l->loss;
    return isfinite(l->loss) ? rp_train_check_output(t, i, err) : rp_train_report_loss(t, i, err);
}

static int backward(struct rp_train *t, int64_t i, int64_t step, struct rp_grad_tree *tree, const struct rp_losses *l,
                    struct rp_err *err)
{
    const int last = t->overlap && i == t->own - 1; /* its gradients are exchanged as they become final */
    if (last)
        rp_overlap_begin(t->overlap, t->set[i % t->sets], tree, t->first + i);
    const int failed = rp_train_backward(t, i, step, rp_grad_tree_leaf(tree), err) < 0;
    if (last ? rp_overlap_end(t->overlap, failed, err) < 0 : failed)
        return -1;
    if (last)
        rp_grad_tree_push_merged(tree, t->first + i, l);
    else
        rp_grad_tree_push(tree, t->first + i, l);
    return transfer_boundary(t, -1, 1, i, err);
}

int rp_pipeline_sum(struct rp_train *t, int64_t step, struct rp_grad_tree *tree, struct rp_err *err)
{
    const int64_t after = t->comm->size[RP_GROUP_PIPELINE] - t->comm->rank[RP_GROUP_PIPELINE] - 1,
                  warm = t->own < after ? t->own : after;
    /* only the last stage has any, and there a micro-batch's backward pass follows its forward pass */
    struct rp_losses l = {0};
    rp_grad_tree_init(tree, t->net->dev, t->gradient, t->gradients, rp_net_gradient_floats(t->net));
    for (int64_t i = 0; i < t->own + warm; i++) {
        const int64_t f = i, b = i - warm; /* of the forward and the backward pass, if there are */
        struct rp_transfer m[2];
        int n = 0;
        if (f < t->own) {
            if (forward(t, f, step, tree, &l, err) < 0)
                return -1;
            n += make_transfer(t, &m[n], 1, 1, f);
        }
        if (b >= 0)
            n += make_transfer(t, &m[n], 1, 0, b);
        if ((n && send_messages(t, m, n, err) < 0) || (b >= 0 && backward(t, b, step, tree, &l, err) < 0))
            return -1;
    }
    return 0;
}

int rp_pipeline_share_losses(struct rp_train *t, struct rp_losses *sum, struct rp_err *err)
{
    const int stages = t->comm->size[RP_GROUP_PIPELINE], own = t->comm->rank[RP_GROUP_PIPELINE],
              is_last = own == stages - 1;
    const size_t micros = (size_t)t->own * sizeof *t->micro_loss;
    RP_FREE struct rp_transfer *m = rp_alloc(2 * (size_t)stages * sizeof *m);
    int n = 0;
    for (int s = is_last ? 0 : stages - 1; s < (is_last ? own : stages); s++) {
        m[n++] = (struct rp_transfer){s, is_last, sum, sizeof *sum};
        m[n++] = (struct rp_transfer){s, is_last, t->micro_loss, micros};
    }
    return rp_comm_exchange(t->comm, RP_GROUP_PIPELINE, m, n, err);
}

/* ---- weights of two stages ---- */

/* Elements of weight i that data-parallel rank `data` of a stage has in its share, within [from, to). */
static size_t clip_share(const struct rp_train *t, int stage, int data, int i, size_t from, size_t to, size_t *first)
{
    const size_t n = rp_share_of_tensor(&t->parts.shares[stage], data, rp_parts_weight(&t->parts, stage, i), first);
    const size_t end = *first + n < to ? *first + n : to;
    *first = *first > from ? *first : from;
    return *first < end ? end - *first : 0;
}

/* A piece [from, to) of the gradient of weight i: from each rank of `user` what its share has of it, to the ranks of
 * `owner` whose shares have the same elements, which add it. */
static void add_piece(struct rp_train *t, int i, int owner, int user, size_t from, size_t to)
{
    const int own = t->parts.own, other = own == owner ? user : owner, data = t->parts.data,
              me = t->comm->rank[RP_GROUP_DATA];
    float *g = rp_tensor_in(t->gradient[0], &t->state.weights->t[i]);
    RP_FREE struct rp_transfer *m = rp_alloc((size_t)data * sizeof *m);
    float *const received = t->net->received;
    size_t first, n = clip_share(t, own, me, i, from, to, &first);
    int messages = 0;
    for (int d = 0; n && d < data; d++) {
        size_t at, count = clip_share(t, other, d, i, first, first + n, &at);
        float *x = own == user ? g + at : received + (at - from);
        if (count)
            m[messages++] =
                (struct rp_transfer){rp_parts_world_rank(&t->parts, other, d, t->comm->rank[RP_GROUP_TENSOR]),
                                     own == user, x, count * sizeof *x};
    }
    if (!messages)
        return;
    rp_net_exchange(t->net, RP_GROUP_WORLD, m, messages);
    if (own == owner && !t->net->failed.code)
        t->net->dev->op->add(t->net->dev, g + first, g + first, received + (first - from), n);
}

int rp_pipeline_add_tied(struct rp_train *t, struct rp_err *err)
{
    for (int i = 0; i < t->state.weights->n && t->parts.stages > 1; i++) {
        const int owner = rp_parts_owner(&t->parts, i), user = rp_parts_second_user(&t->parts, i);
        const size_t count = t->state.weights->t[i].count;
        if (user < 0 || (t->parts.own != owner && t->parts.own != user))
            continue;
        for (size_t at = 0; at < count; at += RP_TIED_PIECE)
            add_piece(t, i, owner, user, at, at + RP_TIED_PIECE < count ? at + RP_TIED_PIECE : count);
    }
    return rp_net_exchanged(t->net, err);
}

int rp_pipeline_return_tied(struct rp_train *t, struct rp_err *err)
{
    for (int i = 0; i < t->state.weights->n && t->parts.stages > 1; i++) {
        const int owner = rp_parts_owner(&t->parts, i), user = rp_parts_second_user(&t->parts, i), own = t->parts.own;
        const struct rp_tensor *w = &t->state.weights->t[i];
        if (user < 0 || (own != owner && own != user))
            continue;
        struct rp_transfer m = {own == owner ? user : owner, own == owner, rp_tensor_in(t->state.w, w),
                                rp_tensor_bytes(w)};
        if (t->rounded) {
            m.data = rp_stored_at(t->net->dev, t->rounded, (long)(w->offset / w->each));
            m.bytes = w->count * t->net->dev->stored_bytes;
        }
        rp_net_exchange(t->net, RP_GROUP_PIPELINE, &m, 1);
    }
    return rp_net_exchanged(t->net, err);
}

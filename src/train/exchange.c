#include "train/exchange.h"

#include "base/buf.h"
#include "ops/low.h"

#include <stdlib.h>
#include <string.h>

#define ROOM_FLOATS ((size_t)8 << 20) /* of all nodes at once: 32 MiB */
#define PIECE_MOST ((size_t)1 << 20)  /* floats of one piece: 4 MiB */

/* ---- lists of nodes ---- */

/* Appends a node to the k that out has, and merges it with its sibling, and so on; returns how many there are then. */
static int push_node(struct rp_node *out, int k, struct rp_node node)
{
    out[k++] = node;
    while (k >= 2 && rp_grad_tree_siblings(out[k - 2].lo, out[k - 1].lo, out[k - 1].hi)) {
        out[k - 2].hi = out[k - 1].hi;
        k--;
    }
    return k;
}

/* The nodes that are left of n that are pushed in order; returns their number. */
static int merge_nodes(struct rp_node *out, const struct rp_node *in, int n)
{
    int k = 0;
    for (int i = 0; i < n; i++)
        k = push_node(out, k, in[i]);
    return k;
}

/* Those of a rank's own counter. out: [RP_GRADIENT_BLOCKS] */
static int nodes_of_rank(struct rp_node *out, int64_t micros, int r, int n)
{
    int k = 0;
    for (int64_t i = rp_first_micro(micros, r, n); i < rp_first_micro(micros, r + 1, n); i++) {
        RP_BUG_IF(k >= RP_GRADIENT_BLOCKS);
        k = push_node(out, k, (struct rp_node){i, i + 1});
    }
    return k;
}

/* ---- the plan ---- */

/* Elements of a tensor within floats [lo, hi) of its block; the first of them. */
static size_t clip_tensor(const struct rp_tensor *t, size_t lo, size_t hi, size_t *first)
{
    const size_t start = t->offset / sizeof(float), end = start + t->count;
    lo = lo > start ? lo : start;
    hi = hi < end ? hi : end;
    *first = lo - start;
    return lo < hi ? hi - lo : 0;
}

/* What of a gradient block belongs to the weights [lo, hi): those, second gradients of them, and all statistics, unless
 * they belong to another bucket. */
static struct rp_extent *extents_of(const struct rp_net *m, size_t lo, size_t hi, int statistics, size_t *floats)
{
    const struct rp_tensors *seconds = &m->tensors[RP_SECOND_GRADIENT], *buffers = &m->tensors[RP_BUFFER];
    const size_t weights = m->tensors[RP_WEIGHT].bytes / sizeof(float);
    struct rp_extent *e = rp_alloc(((size_t)seconds->n + 3) * sizeof *e);
    int n = 0;
    if (lo < hi)
        e[n++] = (struct rp_extent){lo, hi - lo};
    for (int i = 0; i < seconds->n; i++) {
        size_t first;
        const size_t count = clip_tensor(&m->tensors[RP_WEIGHT].t[seconds->t[i].of], lo, hi, &first);
        if (count)
            e[n++] = (struct rp_extent){weights + seconds->t[i].offset / sizeof(float) + first, count};
    }
    if (statistics && buffers->bytes)
        e[n++] = (struct rp_extent){weights + seconds->bytes / sizeof(float), buffers->bytes / sizeof(float)};
    *floats = 0;
    for (int i = 0; i < n; i++)
        *floats += e[i].floats;
    return e;
}

/* Elements of the block of weights that are sent at once: of matrices copies of 2 bytes, of all others floats. */
struct updated_run {
    size_t at, floats, each;
    int tensor; /* that has the first of them; where there are copies */
};

/* The runs of an extent, one after the other. */
struct updated_walk {
    const struct rp_tensors *weights;
    int copies;
    size_t at, end;
    int i; /* the tensor to look at next */
};

static struct updated_walk walk_updated(const struct rp_tensors *weights, int copies, const struct rp_extent *e)
{
    return (struct updated_walk){.weights = weights, .copies = copies, .at = e->at, .end = e->at + e->floats};
}

/* 0: there is none left. */
static int next_updated(struct updated_walk *w, struct updated_run *run)
{
    *run = (struct updated_run){.at = w->at, .floats = w->copies ? 0 : w->end - w->at, .each = sizeof(float)};
    for (; w->copies && w->i < w->weights->n; w->i++) {
        const struct rp_tensor *t = &w->weights->t[w->i];
        size_t first;
        const size_t n = clip_tensor(t, w->at, w->end, &first), at = t->offset / sizeof(float) + first;
        const size_t each = rp_tensor_dims(t) > 1 ? sizeof(uint16_t) : sizeof(float);
        if (!n)
            continue;
        if (run->floats && run->each != each)
            break;
        if (!run->floats)
            *run = (struct updated_run){.at = at, .each = each, .tensor = w->i};
        run->floats = at + n - run->at; /* with the padding between tensors */
    }
    w->at = run->at + run->floats;
    return run->floats > 0;
}

/* As they are sent; *runs: their number. */
static uint64_t updated_bytes(const struct rp_tensors *weights, int copies, const struct rp_extent *e, size_t *runs)
{
    struct updated_walk w = walk_updated(weights, copies, e);
    struct updated_run run;
    uint64_t bytes = 0;
    for (*runs = 0; next_updated(&w, &run); (*runs)++)
        bytes += run.floats * run.each;
    return bytes;
}

/* The shares of members of a level, bucket by bucket. last: as in open_level(). */
static void list_shares(struct rp_exchange_level *l, const struct rp_net *m, const struct rp_shares *s, int b,
                        int (*last)(const struct rp_shares *s, int rank))
{
    for (int i = 0; i < l->n; i++) {
        const int k = b * l->n + i, rank = l->member[i];
        const size_t lo = rp_share_at(s, s->hosts > 1 && last ? rank % (s->n / s->hosts) : rank, b)->lo;
        const size_t hi = rp_share_at(s, last ? last(s, rank) : rank, b)->hi;
        l->share[k] = extents_of(m, lo, hi, b == 0, &l->floats[k]);
        size_t runs;
        l->updated[k] = (struct rp_extent){lo, hi - lo};
        l->updated_bytes[k] = updated_bytes(&m->tensors[RP_WEIGHT], m->gathers_copies, &l->updated[k], &runs);
        l->most[b] = l->floats[k] > l->most[b] ? l->floats[k] : l->most[b];
    }
}

/* member: ranks of the data group in ascending order. last: the rank where the range of a member's share ends that
 * begins with its own, in the order of shares; NULL: each has its own. */
static void open_level(struct rp_exchange_level *l, const struct rp_net *m, const struct rp_shares *s,
                       const int *member, int n, int (*last)(const struct rp_shares *s, int rank))
{
    const size_t shares = (size_t)n * (size_t)s->buckets;
    *l = (struct rp_exchange_level){.n = n, .member = rp_alloc((size_t)n * sizeof *l->member),
                                    .share = rp_alloc(shares * sizeof *l->share),
                                    .floats = rp_alloc(shares * sizeof *l->floats),
                                    .updated = rp_alloc(shares * sizeof *l->updated),
                                    .updated_bytes = rp_alloc(shares * sizeof *l->updated_bytes),
                                    .most = rp_alloc((size_t)s->buckets * sizeof *l->most),
                                    .first_node = rp_alloc(((size_t)n + 1) * sizeof *l->first_node),
                                    .node = rp_alloc((size_t)n * RP_GRADIENT_BLOCKS * sizeof *l->node)};
    memcpy(l->member, member, (size_t)n * sizeof *member);
    for (int i = 0; i < n; i++)
        if (member[i] == s->own)
            l->own = i;
    for (int b = 0; b < s->buckets; b++)
        list_shares(l, m, s, b, last);
}

/* The rank on the last host among those at the same place on their hosts. */
static int at_last_host(const struct rp_shares *s, int rank)
{
    const int each = s->n / s->hosts;
    return (s->hosts - 1) * each + rank % each;
}

static int add_nodes(struct rp_exchange_level *l, int i, int at, const struct rp_node *node, int n)
{
    RP_BUG_IF(n > RP_GRADIENT_BLOCKS);
    memcpy(l->node + at, node, (size_t)n * sizeof *node);
    l->first_node[i] = at;
    l->first_node[i + 1] = at + n;
    return at + n;
}

static void open_flat(struct rp_exchange *x, const struct rp_net *m, const struct rp_shares *s)
{
    RP_FREE int *all = rp_alloc((size_t)s->n * sizeof *all);
    struct rp_node own[RP_GRADIENT_BLOCKS];
    int at = 0;
    for (int r = 0; r < s->n; r++)
        all[r] = r;
    x->levels = 1;
    open_level(&x->level[0], m, s, all, s->n, NULL);
    for (int r = 0; r < s->n; r++)
        at = add_nodes(&x->level[0], r, at, own, nodes_of_rank(own, x->micros, r, s->n));
}

/* Whether the micro-batches of every host are one node of the tree, once its ranks have summed; node: of each. */
static int hosts_own_subtrees(const struct rp_exchange *x, const struct rp_shares *s, struct rp_node *node)
{
    const int each = s->n / s->hosts;
    RP_FREE struct rp_node *in = rp_alloc((size_t)each * RP_GRADIENT_BLOCKS * sizeof *in),
                           *out = rp_alloc((size_t)each * RP_GRADIENT_BLOCKS * sizeof *out);
    for (int i = 0; i < s->hosts; i++) {
        int n = 0;
        for (int r = i * each; r < (i + 1) * each; r++)
            n += nodes_of_rank(in + n, x->micros, r, s->n);
        if (merge_nodes(out, in, n) != 1)
            return 0;
        node[i] = out[0];
    }
    return 1;
}

/* of_host: [hosts] their nodes */
static void open_by_host(struct rp_exchange *x, const struct rp_net *m, const struct rp_shares *s,
                         const struct rp_node *of_host)
{
    const int each = s->n / s->hosts, host = s->own / each;
    RP_FREE int *here = rp_alloc((size_t)each * sizeof *here), *across = rp_alloc((size_t)s->hosts * sizeof *across);
    struct rp_node nodes[RP_GRADIENT_BLOCKS];
    int at = 0;
    for (int j = 0; j < each; j++)
        here[j] = host * each + j;
    for (int i = 0; i < s->hosts; i++)
        across[i] = i * each + s->own % each;
    x->levels = 2;
    open_level(&x->level[0], m, s, here, each, at_last_host);
    open_level(&x->level[1], m, s, across, s->hosts, NULL);
    for (int j = 0; j < each; j++)
        at = add_nodes(&x->level[0], j, at, nodes, nodes_of_rank(nodes, x->micros, here[j], s->n));
    at = 0;
    for (int i = 0; i < s->hosts; i++)
        at = add_nodes(&x->level[1], i, at, &of_host[i], 1);
}

static int host_of(const struct rp_shares *s, int rank)
{
    const struct rp_comm *c = s->comm;
    return c->host ? c->host[rp_comm_world_rank(c, RP_GROUP_DATA, rank)] : 0;
}

/* Bytes that this rank sends in a step, to all and to other hosts. */
static void count_bytes(struct rp_exchange *x)
{
    x->sent_bytes = x->between_bytes = 0;
    for (int i = 0; i < x->levels; i++) {
        const struct rp_exchange_level *l = &x->level[i];
        for (int k = 0; k < x->shares->buckets * l->n; k++) {
            const int member = k % l->n;
            const uint64_t nodes = (uint64_t)(l->first_node[l->own + 1] - l->first_node[l->own]);
            const uint64_t bytes = nodes * l->floats[k] * sizeof(float) + l->updated_bytes[k - member + l->own];
            if (member == l->own)
                continue;
            x->sent_bytes += bytes;
            if (host_of(x->shares, l->member[member]) != host_of(x->shares, x->shares->own))
                x->between_bytes += bytes;
        }
    }
}

static void measure_room(struct rp_exchange *x)
{
    int most = 0;
    x->blocks = 1;
    for (int i = 0; i < x->levels; i++) {
        const struct rp_exchange_level *l = &x->level[i];
        const int own = l->first_node[l->own + 1] - l->first_node[l->own];
        most = l->first_node[l->n] > most ? l->first_node[l->n] : most;
        x->blocks = own > x->blocks ? own : x->blocks;
    }
    x->piece = ROOM_FLOATS / (size_t)most / RP_NORM_CHUNK * RP_NORM_CHUNK;
    x->piece = x->piece < RP_NORM_CHUNK ? RP_NORM_CHUNK : x->piece < PIECE_MOST ? x->piece : PIECE_MOST;
    x->room = x->piece * (size_t)most;
}

void rp_exchange_open(struct rp_exchange *x, const struct rp_net *m, const struct rp_shares *shares, int64_t micros)
{
    RP_FREE struct rp_node *of_host = rp_alloc((size_t)shares->hosts * sizeof *of_host);
    *x = (struct rp_exchange){.comm = shares->comm, .dev = m->dev, .shares = shares, .copies = m->gathers_copies,
                              .blocks = 1, .micros = micros};
    if (shares->n == 1)
        return;
    x->bucket = rp_alloc((size_t)shares->buckets * sizeof *x->bucket);
    for (int b = 0; b < shares->buckets; b++) {
        size_t floats;
        x->bucket[b] = extents_of(m, shares->bucket[b].lo, shares->bucket[b].hi, b == 0, &floats);
    }
    if (shares->hosts > 1 && shares->hosts < shares->n && hosts_own_subtrees(x, shares, of_host))
        open_by_host(x, m, shares, of_host);
    else
        open_flat(x, m, shares);
    count_bytes(x);
    measure_room(x);
    rp_exchange_begin(x);
}

void rp_exchange_close(struct rp_exchange *x)
{
    for (int i = 0; i < x->levels; i++) {
        struct rp_exchange_level *l = &x->level[i];
        for (int k = 0; k < x->shares->buckets * l->n; k++)
            free(l->share[k]);
        free(l->member);
        free(l->share);
        free(l->floats);
        free(l->most);
        free(l->first_node);
        free(l->node);
        free(l->updated);
        free(l->updated_bytes);
    }
    for (int b = 0; x->bucket && b < x->shares->buckets; b++)
        free(x->bucket[b]);
    free(x->bucket);
    *x = (struct rp_exchange){0};
}

/* ---- gradients ---- */

#define RUNS_MAX 8 /* of a piece: weights, second gradients, statistics */

/* Contiguous floats of a gradient block. */
struct run {
    size_t at, floats, after; /* after: floats of the piece before it */
};

/* Runs of piece k of a share; returns their number, at most the extents. */
static int runs_of_piece(struct run *run, const struct rp_exchange *x, const struct rp_extent *share, size_t k)
{
    const size_t from = k * x->piece, to = from + x->piece;
    size_t before = 0;
    int n = 0;
    for (const struct rp_extent *e = share; e->floats; before += e->floats, e++) {
        const size_t lo = from > before ? from : before, hi = to < before + e->floats ? to : before + e->floats;
        RP_BUG_IF(n >= RUNS_MAX);
        if (lo < hi)
            run[n++] = (struct run){e->at + lo - before, hi - lo, lo - from};
    }
    return n;
}

struct transfers {
    struct rp_transfer *t;
    int n;
};

static void add_transfer(struct transfers *all, int peer, int send, float *data, size_t floats)
{
    all->t[all->n++] = (struct rp_transfer){peer, send, data, floats * sizeof *data};
}

/* Sends every other member part k of its share of the own nodes, and receives its nodes of the own share into the room.
 * share: of the bucket. */
static int send_part(struct rp_exchange *x, const struct rp_exchange_level *l, struct rp_extent *const *share, size_t k,
                     float *const *block, float *room, struct rp_err *err)
{
    const int nodes = l->first_node[l->n], own = l->first_node[l->own + 1] - l->first_node[l->own];
    RP_FREE struct rp_transfer *t = rp_alloc(((size_t)nodes + (size_t)own * (size_t)l->n) * RUNS_MAX * sizeof *t);
    struct transfers all = {.t = t};
    struct run run[RUNS_MAX];
    for (int step = 1; step < l->n; step++) {
        const int to = (l->own + step) % l->n, from = (l->own + l->n - step) % l->n;
        for (int i = 0, runs = runs_of_piece(run, x, share[to], k); i < own; i++)
            for (int j = 0; j < runs; j++)
                add_transfer(&all, l->member[to], 1, block[i] + run[j].at, run[j].floats);
        for (int i = l->first_node[from], runs = runs_of_piece(run, x, share[l->own], k); i < l->first_node[from + 1];
             i++)
            for (int j = 0; j < runs; j++)
                add_transfer(&all, l->member[from], 0, room + (size_t)i * x->piece + run[j].after, run[j].floats);
    }
    return rp_comm_exchange_device(x->comm, RP_GROUP_DATA, t, all.n, err);
}

static void copy_floats(struct rp_dev *dev, float *to, const float *from, size_t n)
{
    dev->op->copy_columns(dev, to, (long)n, from, (long)n, 1, (int)n, sizeof *to);
}

/* Merges the nodes of one run; those that are left go to block[0], block[1], ... last: the tree is complete. */
static void merge_run(const struct rp_exchange *x, struct rp_dev *dev, const struct rp_exchange_level *l,
                      const struct run *run, float *const *block, float *room, int last)
{
    float *at[RP_GRADIENT_BLOCKS + 1] = {0};
    struct rp_grad_tree tree;
    struct rp_losses none = {0};
    rp_grad_tree_init(&tree, dev, at, RP_GRADIENT_BLOCKS + 1, run->floats);
    for (int i = 0; i < l->first_node[l->n]; i++) {
        const int own = i >= l->first_node[l->own] && i < l->first_node[l->own + 1];
        RP_BUG_IF(tree.n > RP_GRADIENT_BLOCKS);
        at[tree.n] = own ? block[i - l->first_node[l->own]] + run->at : room + (size_t)i * x->piece + run->after;
        rp_grad_tree_push_node(&tree, l->node[i].lo, l->node[i].hi, &none);
    }
    if (last)
        rp_grad_tree_finish(&tree, &none);
    RP_BUG_IF(tree.n != 1); /* one level has all nodes, the first of two makes one of those of a host */
    if (at[0] != block[0] + run->at)
        copy_floats(dev, block[0] + run->at, at[0], run->floats);
}

void rp_exchange_begin(struct rp_exchange *x)
{
    x->next.bucket = x->levels ? x->shares->buckets - 1 : -1;
    x->next.level = 0;
    x->next.part = 0;
}

int rp_exchange_bucket(const struct rp_exchange *x)
{
    return x->next.bucket;
}

/* Every bucket has at least one part of each level, which may be empty. */
static void step_on(struct rp_exchange *x)
{
    if (++x->next.part * x->piece < x->level[x->next.level].most[x->next.bucket])
        return;
    x->next.part = 0;
    if (++x->next.level < x->levels)
        return;
    x->next.level = 0;
    x->next.bucket--;
}

int rp_exchange_piece(struct rp_exchange *x, struct rp_dev *dev, float *const *block, float *room, struct rp_err *err)
{
    const struct rp_exchange_level *l = &x->level[x->next.level];
    struct rp_extent *const *share = l->share + x->next.bucket * l->n;
    struct run run[RUNS_MAX];
    RP_BUG_IF(x->next.bucket < 0);
    if (send_part(x, l, share, x->next.part, block, room, err) < 0)
        return -1;
    for (int i = 0, runs = runs_of_piece(run, x, share[l->own], x->next.part); i < runs; i++)
        merge_run(x, dev, l, &run[i], block, room, x->next.level + 1 == x->levels);
    step_on(x);
    return 0;
}

/* ---- losses ---- */

/* What a rank's nodes add up to; every rank merges those of all. */
struct node_losses {
    int64_t nodes;
    struct {
        int64_t lo, hi;
        struct rp_losses sum;
    } node[RP_GRADIENT_BLOCKS];
};

int rp_exchange_losses(struct rp_exchange *x, const struct rp_grad_tree *own, struct rp_losses *sum, struct rp_err *err)
{
    const int n = x->shares->n;
    RP_FREE struct node_losses *all = rp_alloc((size_t)n * sizeof *all);
    struct node_losses *mine = &all[x->shares->own];
    struct rp_grad_tree tree;
    mine->nodes = own->n;
    for (int i = 0; i < own->n; i++) {
        mine->node[i].lo = own->node[i].lo;
        mine->node[i].hi = own->node[i].hi;
        mine->node[i].sum = own->node[i].sum;
    }
    if (rp_comm_all_gather(x->comm, RP_GROUP_DATA, all, mine, sizeof *all, err) < 0)
        return -1;
    rp_grad_tree_init(&tree, NULL, NULL, RP_GRADIENT_BLOCKS, 0);
    for (int r = 0; r < n; r++)
        for (int64_t i = 0; i < all[r].nodes && i < RP_GRADIENT_BLOCKS; i++)
            rp_grad_tree_push_node(&tree, all[r].node[i].lo, all[r].node[i].hi, &all[r].node[i].sum);
    rp_grad_tree_finish(&tree, sum);
    return 0;
}

/* ---- weights ---- */

/* Where a run is sent from and received: of copies that a device keeps as fp32 numbers, the upper half of them. */
static void *updated_at(const struct rp_exchange *x, float *block, rp_stored *copies, const struct updated_run *run)
{
    if (run->each == sizeof *block && !copies)
        return block + run->at;
    if (run->each == sizeof *block) {
        const size_t first = run->at - x->shares->weights->t[run->tensor].offset / sizeof *block;
        return block + rp_shares_master_of(x->shares, run->tensor, first);
    }
    return (char *)rp_stored_at(x->dev, copies, (long)run->at) + run->floats * (x->dev->stored_bytes - run->each);
}

static void add_updated(struct transfers *all, const struct rp_exchange *x, int peer, int send, float *block,
                        rp_stored *copies, const struct rp_extent *e)
{
    struct updated_walk w = walk_updated(x->shares->weights, x->copies, e);
    struct updated_run run;
    while (next_updated(&w, &run))
        all->t[all->n++] = (struct rp_transfer){peer, send, updated_at(x, block, copies, &run), run.floats * run.each};
}

/* n numbers of 16 bits, which lie there as floats, to their upper half: from the last on, none is overwritten before it
 * is read. */
static void narrow_run(char *x, size_t n, enum rp_tc_format format)
{
    for (size_t i = n; i-- > 0;) {
        uint32_t bits;
        memcpy(&bits, x + i * sizeof bits, sizeof bits);
        const uint16_t low = rp_low_of(format, bits);
        memcpy(x + (n + i) * sizeof low, &low, sizeof low);
    }
}

/* The other way, from the first on. */
static void widen_run(char *x, size_t n, enum rp_tc_format format)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t low;
        memcpy(&low, x + (n + i) * sizeof low, sizeof low);
        const uint32_t bits = rp_low_value(format, low);
        memcpy(x + i * sizeof bits, &bits, sizeof bits);
    }
}

/* The copies of an extent before and after an exchange. A device that keeps 16 bits of them has nothing to do. */
static void convert_copies(const struct rp_exchange *x, rp_stored *copies, const struct rp_extent *e,
                           void (*convert)(char *x, size_t n, enum rp_tc_format format))
{
    struct updated_walk w = walk_updated(x->shares->weights, x->copies, e);
    struct updated_run run;
    if (!x->copies || x->dev->stored_bytes == sizeof(uint16_t))
        return;
    RP_BUG_IF(x->dev->backend->separate_memory);
    while (next_updated(&w, &run))
        if (run.each == sizeof(uint16_t))
            convert((char *)rp_stored_at(x->dev, copies, (long)run.at), run.floats,
                    rp_arithmetic_of(x->dev->numerics)->format);
}

/* The messages of a level are as many, at most. */
static size_t most_transfers(const struct rp_exchange *x, const struct rp_exchange_level *l)
{
    size_t n = 0, runs;
    for (int k = 0; k < x->shares->buckets * l->n; k++) {
        (void)updated_bytes(x->shares->weights, x->copies, &l->updated[k], &runs);
        n += k % l->n == l->own ? runs * (size_t)l->n : runs;
    }
    return n;
}

static int exchange_level(struct rp_exchange *x, const struct rp_exchange_level *l, float *block, rp_stored *copies,
                          struct rp_err *err)
{
    RP_FREE struct rp_transfer *t = rp_alloc((most_transfers(x, l) + 1) * sizeof *t);
    struct transfers all = {.t = t};
    for (int b = 0; b < x->shares->buckets; b++)
        convert_copies(x, copies, &l->updated[b * l->n + l->own], narrow_run);
    for (int step = 1; step < l->n; step++) {
        const int to = (l->own + step) % l->n, from = (l->own + l->n - step) % l->n;
        for (int b = 0; b < x->shares->buckets; b++) {
            add_updated(&all, x, l->member[to], 1, block, copies, &l->updated[b * l->n + l->own]);
            add_updated(&all, x, l->member[from], 0, block, copies, &l->updated[b * l->n + from]);
        }
    }
    if (rp_comm_exchange_device(x->comm, RP_GROUP_DATA, t, all.n, err) < 0)
        return -1;
    for (int k = 0; k < x->shares->buckets * l->n; k++)
        convert_copies(x, copies, &l->updated[k], widen_run);
    return 0;
}

int rp_exchange_block(struct rp_exchange *x, float *block, rp_stored *copies, struct rp_err *err)
{
    RP_BUG_IF(!copies != !x->copies);
    if (x->dev->backend->sync(x->dev, err) < 0)
        return -1;
    for (int level = x->levels - 1; level >= 0; level--)
        if (exchange_level(x, &x->level[level], block, copies, err) < 0)
            return -1;
    return 0;
}

#include "train/state.h"

#include "base/buf.h"
#include "base/hash.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

int rp_state_entries(const struct rp_trained *s)
{
    return s->weights->n * (1 + rp_optimizer_slots(s->optimizer)) + s->buffers->n;
}

void rp_state_entry_at(struct rp_state_entry *e, const struct rp_trained *s, int i)
{
    int weights = s->weights->n, first = weights + s->buffers->n;
    char name[RP_TENSOR_NAME];
    *e = (struct rp_state_entry){.slot = i < first ? -1 : (i - first) / weights};
    e->t = i >= weights && i < first ? &s->buffers->t[i - weights]
                                     : &s->weights->t[i < weights ? i : (i - first) % weights];
    e->x = rp_trained_values(s, e->t, e->slot);
    rp_tensor_name(name, e->t);
    if (e->slot >= 0)
        snprintf(e->name, sizeof e->name, "optimizer.%s.%s", s->optimizer->slot[e->slot], name);
    else
        snprintf(e->name, sizeof e->name, "%s", name);
}

size_t rp_state_leaves(const struct rp_tensors *l, int parallel)
{
    size_t most = 0;
    for (int i = 0; i < l->n; i++) {
        size_t n = rp_tensor_parts(&l->t[i], parallel, RP_LEAF_BYTES / sizeof(float));
        most = n > most ? n : most;
    }
    return most;
}

static void leaf(unsigned char out[32], const void *data, size_t size)
{
    struct rp_sha256 h;
    rp_sha256_init(&h);
    rp_sha256_update(&h, "\0", 1);
    rp_sha256_update(&h, data, size);
    rp_sha256_final(&h, out);
}

/* in place over digests of leaves: n >= 1 */
static void tree(unsigned char out[32], const unsigned char *digests, long n)
{
    unsigned char node[65] = {1};
    if (n == 1) {
        memcpy(out, digests, 32);
        return;
    }
    long k = rp_tree_split(n);
    tree(node + 1, digests, k);
    tree(node + 33, digests + 32 * k, n - k);
    rp_sha256_bytes(out, node, sizeof node);
}

void rp_merkle(unsigned char out[32], const unsigned char *leaves, long n, size_t size)
{
    RP_FREE unsigned char *digests = rp_alloc((size_t)n * 32);
    for (long i = 0; i < n; i++)
        leaf(digests + 32 * i, leaves + (size_t)i * size, size);
    tree(out, digests, n);
}

static size_t leaves_of(const struct rp_trained *s, const struct rp_tensor *t)
{
    return rp_tensor_parts(t, s->parallel, RP_LEAF_BYTES / sizeof(float));
}

/* n floats at x, on the device, to out: the digests of their leaves. */
static int digest_floats(unsigned char *out, const struct rp_trained *s, const float *x, size_t n, struct rp_err *err)
{
    const size_t leaves = (n * sizeof *x + RP_LEAF_BYTES - 1) / RP_LEAF_BYTES;
    s->dev->op->digest_leaves(s->dev, s->leaves, x, n);
    return s->dev->backend->sync(s->dev, err) < 0 ? -1
                                                  : s->dev->backend->download(s->dev, out, s->leaves, leaves * 32, err);
}

/* The leaves of one tensor of a list, shard by shard: of a weight those of the own share. */
static int digest_tensor(unsigned char *out, const struct rp_trained *s, const struct rp_tensors *list, int i,
                         const float *x, struct rp_err *err)
{
    _Static_assert(RP_LEAF_BYTES == RP_NORM_CHUNK * sizeof(float), "shares end between leaves as between chunks");
    struct rp_run_of_chunks run[RP_SHARDS_MAX] = {{0, list->t[i].count, 0, leaves_of(s, &list->t[i])}};
    const int ranges = rp_tensor_shards_are_ranges(&list->t[i], s->parallel);
    const int runs = list == s->weights ? rp_shares_runs(&s->shares, i, run) : 1;
    for (int k = 0; ranges && k < runs; k++)
        if (run[k].count && digest_floats(out + 32 * run[k].chunk, s, x + run[k].first, run[k].count, err) < 0)
            return -1;
    for (int k = 0; !ranges && runs && k < rp_tensor_shards(&list->t[i], s->parallel); k++) {
        size_t n;
        const float *shard = rp_trained_shard(s, &list->t[i], x, k, &n);
        if (digest_floats(out, s, shard, n, err) < 0)
            return -1;
        out += (n * sizeof *shard + RP_LEAF_BYTES - 1) / RP_LEAF_BYTES * 32;
    }
    return 0;
}

/* Roots of the weights of all ranks from the digests of own leaves. */
static int weight_roots(unsigned char *roots, const struct rp_trained *s, unsigned char *digests, struct rp_err *err)
{
    RP_FREE unsigned char *whole = rp_alloc(rp_parts_all_chunks(s->parts) * 32);
    size_t at = 0;
    if (rp_shares_gather(&s->shares, digests, 32, err) < 0 || rp_parts_gather(s->parts, whole, digests, 32, err) < 0)
        return -1;
    for (int i = 0; i < s->weights->n; at += rp_parts_chunks(s->parts, i++))
        rp_merkle(roots + 32 * i, whole + 32 * at, (long)rp_parts_chunks(s->parts, i), 32);
    return 0;
}

/* Roots [n][32] of the tensors of a list, or of their slots. */
static int list_roots(unsigned char *roots, const struct rp_trained *s, const struct rp_tensors *list, int slot,
                      struct rp_err *err)
{
    size_t all = 0, at = 0;
    for (int i = 0; i < list->n; i++)
        all += leaves_of(s, &list->t[i]);
    RP_FREE unsigned char *digests = rp_alloc(all * 32 + 1);
    for (int i = 0; i < list->n; at += leaves_of(s, &list->t[i++]))
        if (rp_tensor_is_owned(list, &list->t[i]) &&
            digest_tensor(digests + 32 * at, s, list, i, rp_trained_values(s, &list->t[i], slot), err) < 0)
            return -1;
    if (list == s->weights)
        return weight_roots(roots, s, digests, err);
    at = 0;
    for (int i = 0; i < list->n; at += leaves_of(s, &list->t[i++]))
        rp_merkle(roots + 32 * i, digests + 32 * at, (long)leaves_of(s, &list->t[i]), 32);
    return 0;
}

/* [entries][32] in the order of the entries */
static int all_roots(unsigned char *roots, const struct rp_trained *s, struct rp_err *err)
{
    if (list_roots(roots, s, s->weights, -1, err) < 0 ||
        list_roots(roots + 32 * s->weights->n, s, s->buffers, -1, err) < 0)
        return -1;
    for (int k = 0; k < rp_optimizer_slots(s->optimizer); k++)
        if (list_roots(roots + 32 * (s->weights->n * (k + 1) + s->buffers->n), s, s->weights, k, err) < 0)
            return -1;
    return 0;
}

/* Digest of an entry: its name and its root. */
static void entry_leaf(unsigned char digest[32], const char *name, const unsigned char root[32])
{
    unsigned char entry[RP_STATE_NAME + 33];
    size_t n = strlen(name);
    memcpy(entry, name, n + 1);
    memcpy(entry + n + 1, root, 32);
    leaf(digest, entry, n + 1 + 32);
}

int rp_state_root(char hex[65], json_t **tensors, const struct rp_trained *s, struct rp_err *err)
{
    const int n = rp_state_entries(s);
    RP_FREE unsigned char *roots = rp_alloc((size_t)n * 32), *digests = rp_alloc((size_t)n * 32);
    unsigned char root[32];
    if (all_roots(roots, s, err) < 0)
        return -1;
    json_t *map = tensors ? json_object() : NULL;
    for (int i = 0; i < n; i++) {
        struct rp_state_entry e;
        char text[65];
        rp_state_entry_at(&e, s, i);
        rp_hex(text, roots + 32 * i, 32);
        json_object_set_new(map, e.name, json_string(text));
        entry_leaf(digests + 32 * i, e.name, roots + 32 * i);
    }
    tree(root, digests, n);
    rp_hex(hex, root, 32);
    if (tensors)
        *tensors = map;
    return 0;
}

/* Which leaf of all leaves of a tensor. */
static size_t choose_leaf(const char *key, const char *name, size_t leaves)
{
    RP_BUF text = {0};
    rp_buf_printf(&text, "%s\n%s", key, name);
    return (size_t)(rp_sha256_word(text.data, text.size) % leaves);
}

enum { LEAF_FLOATS = RP_LEAF_BYTES / sizeof(float) };

/* One leaf of an entry: elements [first, first + n) of a shard of the tensor's part on the rank that has it. */
struct keyed_leaf {
    struct rp_state_entry e;
    int shard;
    size_t first, n;
    int owner; /* world rank */
};

/* The data-parallel rank that has chunk `chunk` of the part of weight i, or of its slot, on a rank of this stage; 0 for
 * what all of them have. */
static int data_rank_of(const struct rp_trained *s, int stage, int i, int slot, size_t chunk)
{
    const struct rp_shares *shares = &s->parts->shares[stage];
    for (int k = 0; k < i; k++)
        chunk += leaves_of(s, rp_parts_weight(s->parts, stage, k));
    return slot >= 0 || s->shares.master ? rp_shares_owner(shares, chunk) : 0;
}

static void choose_keyed_leaf(struct keyed_leaf *l, const struct rp_trained *s, int entry, const char *key)
{
    rp_state_entry_at(&l->e, s, entry);
    const int weights = s->weights->n, is_buffer = entry >= weights && entry < weights + s->buffers->n;
    const int i = is_buffer ? -1 : entry < weights ? entry : (entry - weights - s->buffers->n) % weights;
    const int stage = is_buffer ? 0 : rp_parts_owner(s->parts, i);
    const struct rp_tensor *t = is_buffer ? l->e.t : rp_parts_weight(s->parts, stage, i);
    const size_t shards = (size_t)rp_tensor_shards(t, s->parallel), count = t->count / shards; /* of a part */
    const size_t leaves = (count + LEAF_FLOATS - 1) / LEAF_FLOATS;
    const size_t chosen = choose_leaf(key, l->e.name, (size_t)t->ranks * shards * leaves),
                 within = chosen % (shards * leaves);
    l->shard = (int)(within / leaves);
    l->first = within % leaves * LEAF_FLOATS;
    l->n = count - l->first < LEAF_FLOATS ? count - l->first : LEAF_FLOATS;
    l->owner = is_buffer ? 0
                         : rp_parts_world_rank(s->parts, stage, data_rank_of(s, stage, i, l->e.slot, within),
                                               (int)(chosen / (shards * leaves)));
}

static int download_keyed_leaf(uint32_t *host, const struct rp_trained *s, const struct keyed_leaf *l,
                               struct rp_err *err)
{
    size_t count;
    const float *shard = rp_trained_shard(s, l->e.t, l->e.x, l->shard, &count);
    if (s->dev->backend->sync(s->dev, err) < 0 ||
        s->dev->backend->download(s->dev, host, shard + l->first, l->n * sizeof *host, err) < 0)
        return -1;
    for (size_t i = 0; i < l->n; i++)
        host[i] = (host[i] & 0x7fffffffu) > 0x7f800000u ? 0x7fc00000u : host[i];
    return 0;
}

/* Every rank's leaves to every rank: they lie in `data` by owner, entry i at place[i]. */
static int gather_keyed_leaves(uint32_t *data, const size_t *place, const struct rp_trained *s,
                               const struct keyed_leaf *leaf, int n, const struct rp_piece *piece, struct rp_err *err)
{
    for (int i = 0; i < n; i++)
        if (leaf[i].owner == s->parts->comm->rank[RP_GROUP_WORLD] &&
            download_keyed_leaf(data + place[i], s, &leaf[i], err) < 0)
            return -1;
    return rp_comm_all_gather_pieces(s->parts->comm, RP_GROUP_WORLD, data, piece, err);
}

int rp_state_keyed_root(char hex[65], const struct rp_trained *s, const char *key, struct rp_err *err)
{
    static const char version[] = "repro-keyed-root/1\n";
    const int n = rp_state_entries(s), world = s->parts->comm->size[RP_GROUP_WORLD];
    RP_FREE struct keyed_leaf *leaf = rp_alloc((size_t)n * sizeof *leaf);
    RP_FREE size_t *place = rp_alloc((size_t)n * sizeof *place);
    RP_FREE struct rp_piece *piece = rp_alloc((size_t)world * sizeof *piece);
    size_t floats = 0;
    for (int i = 0; i < n; i++)
        choose_keyed_leaf(&leaf[i], s, i, key);
    for (int r = 0; r < world; r++) {
        const size_t from = floats;
        for (int i = 0; i < n; i++)
            if (leaf[i].owner == r) {
                place[i] = floats;
                floats += leaf[i].n;
            }
        piece[r] = (struct rp_piece){from * sizeof(uint32_t), (floats - from) * sizeof(uint32_t)};
    }
    RP_FREE uint32_t *data = rp_alloc(floats * sizeof *data);
    struct rp_sha256 h;
    if (gather_keyed_leaves(data, place, s, leaf, n, piece, err) < 0)
        return -1;
    rp_sha256_init(&h);
    rp_sha256_update(&h, version, sizeof version - 1);
    rp_sha256_update(&h, key, strlen(key));
    rp_sha256_update(&h, "\n", 1);
    for (int i = 0; i < n; i++) {
        rp_sha256_update(&h, leaf[i].e.name, strlen(leaf[i].e.name) + 1);
        rp_sha256_update(&h, data + place[i], leaf[i].n * sizeof *data);
    }
    rp_sha256_final_hex(&h, hex);
    return 0;
}

int rp_state_root_of(char hex[65], const struct rp_trained *s, const json_t *tensors, struct rp_err *err)
{
    int n = rp_state_entries(s);
    RP_FREE unsigned char *digests = rp_alloc((size_t)n * 32);
    unsigned char root[32];
    for (int i = 0; i < n; i++) {
        struct rp_state_entry e;
        rp_state_entry_at(&e, s, i);
        const char *text = json_string_value(json_object_get(tensors, e.name));
        if (!text || !rp_is_sha256(text) || rp_unhex(root, 32, text) < 0)
            return rp_fail(err, RP_MISMATCH, "there is no root for the tensor '%s'", e.name);
        entry_leaf(digests + 32 * i, e.name, root);
    }
    if (json_object_size(tensors) != (size_t)n)
        return rp_fail(err, RP_MISMATCH, "%zu tensors are listed, and the state has %d", json_object_size(tensors), n);
    tree(root, digests, n);
    rp_hex(hex, root, 32);
    return 0;
}

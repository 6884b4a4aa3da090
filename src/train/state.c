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
    float *block = i < weights ? s->w : s->buffer;
    *e = (struct rp_state_entry){.slot = i < first ? -1 : (i - first) / weights};
    if (e->slot >= 0)
        block = s->slot[e->slot];
    e->t = i >= weights && i < first ? &s->buffers->t[i - weights] : &s->weights->t[i < weights ? i : (i - first) % weights];
    e->x = block ? rp_tensor_in(block, e->t) : NULL;
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

/* root [32] of one tensor at x */
static int tensor_root(unsigned char root[32], const struct rp_trained *s, const struct rp_state_entry *e, unsigned char *host,
                       struct rp_err *err)
{
    struct rp_dev *dev = s->dev;
    size_t n = 0, count;
    for (int i = 0; i < rp_tensor_shards(e->t, s->parallel); i++) {
        const float *shard = rp_trained_shard(s, e->t, e->x, i, &count);
        dev->op->digest_leaves(dev, s->leaves + 32 * n, shard, count);
        n += (count * sizeof *shard + RP_LEAF_BYTES - 1) / RP_LEAF_BYTES;
    }
    if (dev->backend->sync(dev, err) < 0 || dev->backend->download(dev, host, s->leaves, n * 32, err) < 0)
        return -1;
    rp_merkle(root, host, (long)n, 32);
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
    int n = rp_state_entries(s);
    size_t weights = rp_state_leaves(s->weights, s->parallel), buffers = rp_state_leaves(s->buffers, s->parallel);
    size_t most = weights > buffers ? weights : buffers;
    RP_FREE unsigned char *host = rp_alloc(most * 32);
    RP_FREE unsigned char *digests = rp_alloc((size_t)n * 32);
    json_t *map = tensors ? json_object() : NULL;
    unsigned char root[32];
    for (int i = 0; i < n; i++) {
        struct rp_state_entry e;
        char text[65];
        rp_state_entry_at(&e, s, i);
        if (tensor_root(root, s, &e, host, err) < 0) {
            json_decref(map);
            return -1;
        }
        rp_hex(text, root, 32);
        json_object_set_new(map, e.name, json_string(text));
        entry_leaf(digests + 32 * i, e.name, root);
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

static int add_keyed_leaf(struct rp_sha256 *h, const struct rp_trained *s, const struct rp_state_entry *e, const char *key,
                          struct rp_err *err)
{
    enum { ELEMENTS = RP_LEAF_BYTES / sizeof(float) };
    uint32_t host[ELEMENTS];
    size_t shards = (size_t)rp_tensor_shards(e->t, s->parallel), count = e->t->count / shards;
    size_t leaves = (count + ELEMENTS - 1) / ELEMENTS, chosen = choose_leaf(key, e->name, shards * leaves);
    const float *shard = rp_trained_shard(s, e->t, e->x, (int)(chosen / leaves), &count);
    size_t first = chosen % leaves * ELEMENTS, n = count - first < ELEMENTS ? count - first : ELEMENTS;
    if (s->dev->backend->sync(s->dev, err) < 0 || s->dev->backend->download(s->dev, host, shard + first, n * sizeof *host, err) < 0)
        return -1;
    for (size_t i = 0; i < n; i++)
        host[i] = (host[i] & 0x7fffffffu) > 0x7f800000u ? 0x7fc00000u : host[i];
    rp_sha256_update(h, e->name, strlen(e->name) + 1);
    rp_sha256_update(h, host, n * sizeof *host);
    return 0;
}

int rp_state_keyed_root(char hex[65], const struct rp_trained *s, const char *key, struct rp_err *err)
{
    static const char version[] = "repro-keyed-root/1\n";
    struct rp_sha256 h;
    rp_sha256_init(&h);
    rp_sha256_update(&h, version, sizeof version - 1);
    rp_sha256_update(&h, key, strlen(key));
    rp_sha256_update(&h, "\n", 1);
    for (int i = 0; i < rp_state_entries(s); i++) {
        struct rp_state_entry e;
        rp_state_entry_at(&e, s, i);
        if (add_keyed_leaf(&h, s, &e, key, err) < 0)
            return -1;
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

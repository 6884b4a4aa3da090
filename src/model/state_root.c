#include "model/state_root.h"

#include "base/buf.h"
#include "base/hash.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

const char *const rp_state_prefix[3] = {"", "optimizer.m.", "optimizer.v."};

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
static int tensor_root(unsigned char root[32], struct rp_dev *dev, const float *x, size_t count, uint8_t *leaves, unsigned char *host,
                       struct rp_err *err)
{
    long n = (long)((count * sizeof *x + RP_LEAF_BYTES - 1) / RP_LEAF_BYTES);
    dev->op->digest_leaves(dev, leaves, x, count);
    if (dev->backend->sync(dev, err) < 0 || dev->backend->download(dev, host, leaves, (size_t)n * 32, err) < 0)
        return -1;
    rp_merkle(root, host, n, 32);
    return 0;
}

/* "optimizer.m.NAME" of the i-th tensor of the state; its length. */
static int name_of(char *out, size_t size, const struct rp_manifest *m, int i)
{
    return snprintf(out, size, "%s%s", rp_state_prefix[i / m->n], m->t[i % m->n].name);
}

/* Digest of the i-th leaf of the state: its name and its root. */
static void state_leaf(unsigned char digest[32], const struct rp_manifest *m, int i, const unsigned char root[32])
{
    unsigned char entry[16 + sizeof m->t->name + 33];
    int n = name_of((char *)entry, sizeof entry, m, i);
    memcpy(entry + n + 1, root, 32);
    leaf(digest, entry, (size_t)n + 1 + 32);
}

int rp_state_root(char hex[65], json_t **tensors, struct rp_dev *dev, const struct rp_manifest *m, const float *const block[3],
                  uint8_t *leaves, struct rp_err *err)
{
    size_t most = (rp_manifest_largest(m) * sizeof(float) + RP_LEAF_BYTES - 1) / RP_LEAF_BYTES;
    RP_FREE unsigned char *host = rp_alloc(most * 32);
    RP_FREE unsigned char *digests = rp_alloc((size_t)m->n * 3 * 32);
    json_t *map = tensors ? json_object() : NULL;
    unsigned char root[32];
    for (int i = 0; i < 3 * m->n; i++) {
        const struct rp_tensor *t = &m->t[i % m->n];
        char text[65], name[16 + sizeof t->name];
        if (tensor_root(root, dev, block[i / m->n] + t->offset, t->count, leaves, host, err) < 0) {
            json_decref(map);
            return -1;
        }
        rp_hex(text, root, 32);
        name_of(name, sizeof name, m, i);
        json_object_set_new(map, name, json_string(text));
        state_leaf(digests + 32 * i, m, i, root);
    }
    tree(root, digests, 3l * m->n);
    rp_hex(hex, root, 32);
    if (tensors)
        *tensors = map;
    return 0;
}

int rp_state_root_of(char hex[65], const struct rp_manifest *m, const json_t *tensors, struct rp_err *err)
{
    RP_FREE unsigned char *digests = rp_alloc((size_t)m->n * 3 * 32);
    unsigned char root[32];
    for (int i = 0; i < 3 * m->n; i++) {
        char name[16 + sizeof m->t->name];
        name_of(name, sizeof name, m, i);
        const char *text = json_string_value(json_object_get(tensors, name));
        if (!text || !rp_is_sha256(text) || rp_unhex(root, 32, text) < 0)
            return rp_fail(err, RP_MISMATCH, "there is no root of the tensor '%s'", name);
        state_leaf(digests + 32 * i, m, i, root);
    }
    if (json_object_size(tensors) != (size_t)(3 * m->n))
        return rp_fail(err, RP_MISMATCH, "%zu tensors are listed, and the model has %d", json_object_size(tensors), 3 * m->n);
    tree(root, digests, 3l * m->n);
    rp_hex(hex, root, 32);
    return 0;
}

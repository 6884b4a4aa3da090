#include "model/state_root.h"

#include "base/buf.h"
#include "base/hash.h"

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

int rp_state_root(char hex[65], json_t **tensors, struct rp_dev *dev, const struct rp_manifest *m, const float *const block[3],
                  uint8_t *leaves, struct rp_err *err)
{
    size_t most = (rp_manifest_largest(m) * sizeof(float) + RP_LEAF_BYTES - 1) / RP_LEAF_BYTES;
    RP_FREE unsigned char *host = rp_alloc(most * 32);
    RP_FREE unsigned char *digests = rp_alloc((size_t)m->n * 3 * 32);
    json_t *map = tensors ? json_object() : NULL;
    for (int i = 0; i < 3 * m->n; i++) {
        const struct rp_tensor *t = &m->t[i % m->n];
        unsigned char entry[16 + sizeof t->name + 33], root[32];
        char text[65];
        int n = snprintf((char *)entry, sizeof entry, "%s%s", rp_state_prefix[i / m->n], t->name);
        if (tensor_root(root, dev, block[i / m->n] + t->offset, t->count, leaves, host, err) < 0) {
            json_decref(map);
            return -1;
        }
        rp_hex(text, root, 32);
        json_object_set_new(map, (char *)entry, json_string(text));
        memcpy(entry + n + 1, root, 32);
        leaf(digests + 32 * i, entry, (size_t)n + 1 + 32);
    }
    unsigned char root[32];
    tree(root, digests, 3l * m->n);
    rp_hex(hex, root, 32);
    if (tensors)
        *tensors = map;
    return 0;
}

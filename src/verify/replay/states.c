#include "verify/replay/states.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "train/batch_counts.h"
#include "train/file_order.h"
#include "train/train.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE ((size_t)1 << 20) /* bytes in memory of each file; whole leaves */
#define CANONICAL_NAN 0x7fc00000u

struct pair {
    struct rp_st was, here;
    uint32_t *a, *b; /* [PIECE / 4] */
};

static int is_nan(uint32_t bits)
{
    return (bits & 0x7fffffffu) > 0x7f800000u;
}

static void hex_of(char out[32], uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    rp_float_hex(out, x);
}

static void compare_piece(struct rp_state_difference *d, const struct pair *p, int64_t at, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (p->a[i] == p->b[i] || (is_nan(p->a[i]) && is_nan(p->b[i])))
            continue;
        if (!d->count++) {
            d->first = at + (int64_t)i;
            hex_of(d->was, p->a[i]);
            hex_of(d->here, p->b[i]);
        }
        d->last = at + (int64_t)i;
    }
}

static int compare_tensor(struct rp_state_difference *d, const struct pair *p, const struct rp_st_tensor *here,
                          struct rp_err *err)
{
    char safe[100];
    const struct rp_st_tensor *was = rp_st_find(&p->was, here->name);
    uint64_t size = here->end - here->begin;
    if (!was || was->end - was->begin != size || strcmp(was->dtype, "F32") != 0 || strcmp(here->dtype, "F32") != 0)
        return rp_fail(err, RP_MISMATCH, "the tensor '%s' is not in both files, or of another size",
                       rp_ascii(safe, sizeof safe, here->name));
    *d = (struct rp_state_difference){.size = (int64_t)(size / sizeof(float))};
    rp_ascii(d->name, sizeof d->name, here->name);
    for (uint64_t at = 0; at < size; at += PIECE) {
        size_t n = size - at < PIECE ? (size_t)(size - at) : PIECE;
        if (rp_st_read(&p->was, was, at, p->a, n, err) < 0 || rp_st_read(&p->here, here, at, p->b, n, err) < 0)
            return -1;
        compare_piece(d, p, (int64_t)(at / sizeof(float)), n / sizeof(float));
    }
    return 0;
}

static int by_place(const void *a, const void *b)
{
    const struct rp_st_tensor *const *x = a, *const *y = b;
    return ((*x)->begin > (*y)->begin) - ((*x)->begin < (*y)->begin);
}

/* In the order of the file that we wrote, which is that of the model. */
static int compare_all(struct rp_state_difference *out, const struct pair *p, struct rp_err *err)
{
    RP_FREE const struct rp_st_tensor **order = rp_alloc((size_t)(p->here.n + 1) * sizeof *order);
    for (int i = 0; i < p->here.n; i++)
        order[i] = &p->here.t[i];
    qsort(order, (size_t)p->here.n, sizeof *order, by_place);
    for (int i = 0; i < p->here.n; i++) {
        struct rp_state_difference d;
        /* counts batches (train/batch_counts.h), which affect nothing */
        if (order[i]->dims == 0 && strcmp(order[i]->dtype, "I64") == 0)
            continue;
        if (compare_tensor(&d, p, order[i], err) < 0)
            return -1;
        if (!d.count)
            continue;
        int64_t before = out->tensors;
        if (!before)
            *out = d;
        out->tensors = before + 1;
    }
    return 0;
}

int rp_states_compare(struct rp_state_difference *out, const char *was, const char *here, struct rp_err *err)
{
    struct pair p = {0};
    *out = (struct rp_state_difference){0};
    if (rp_st_open(&p.was, was, err) < 0)
        return -1;
    if (rp_st_open(&p.here, here, err) < 0) {
        rp_st_close(&p.was);
        return -1;
    }
    p.a = rp_alloc(PIECE);
    p.b = rp_alloc(PIECE);
    int failed = compare_all(out, &p, err);
    free(p.a);
    free(p.b);
    rp_st_close(&p.was);
    rp_st_close(&p.here);
    return failed;
}

/* ---- root ---- */

/* Shard by shard, as ops/NUMERICS.md has it. t: the tensor in the model; x: its data in the order of the model, whose
 * NaN become one. */
static void sharded_root(unsigned char root[32], const struct rp_tensor *t, int parallel, uint32_t *x)
{
    const size_t leaf = RP_LEAF_BYTES / sizeof *x, shards = (size_t)rp_tensor_shards(t, parallel),
                 each = t->count / shards;
    uint32_t piece[RP_LEAF_BYTES / sizeof *x];
    RP_FREE unsigned char *digests = rp_alloc(rp_tensor_parts(t, parallel, leaf) * 32);
    long n = 0;
    for (int i = 0; i < (int)shards; i++)
        for (size_t at = 0; at < each; at += leaf, n++) {
            size_t count = each - at < leaf ? each - at : leaf;
            for (size_t j = 0; j < count; j++) {
                uint32_t bits = x[rp_tensor_shard_element(t, parallel, i, at + j)];
                piece[j] = is_nan(bits) ? CANONICAL_NAN : bits;
            }
            rp_sha256_bytes(digests + 32 * n, piece, count * sizeof *piece);
        }
    rp_merkle(root, digests, n, 32);
}

/* The weight that an entry of the file is, or is a slot of; NULL: no such weight. */
static const struct rp_tensor *weight_of(const struct rp_net *m, const char *name)
{
    static const char prefix[] = "optimizer.";
    const char *dot = strncmp(name, prefix, strlen(prefix)) == 0 ? strchr(name + strlen(prefix), '.') : NULL;
    int i = rp_tensors_find(&m->tensors[RP_WEIGHT], dot ? dot + 1 : name);
    return i < 0 ? NULL : &m->tensors[RP_WEIGHT].t[i];
}

static int tensor_root(char hex[RP_SHA256_HEX], const struct rp_st *st, const struct rp_st_tensor *s,
                       const struct rp_net *m, struct rp_err *err)
{
    static const struct rp_tensor unknown;
    const struct rp_tensor *t = weight_of(m, s->name);
    size_t size = (size_t)(s->end - s->begin);
    struct rp_tensor whole = t ? *t : unknown;
    unsigned char root[32];
    char safe[100];
    if (strcmp(s->dtype, "F32") != 0 || !size || (t && size != rp_tensor_bytes(t)))
        return rp_fail(err, RP_MISMATCH,
                       "'%s', tensor '%s' has %zu bytes of type %s: no state of this model has such a tensor", st->path,
                       rp_ascii(safe, sizeof safe, s->name), size, s->dtype);
    whole.count = size / sizeof(uint32_t);
    RP_FREE uint32_t *x = rp_alloc(size), *file = whole.channels_first ? rp_alloc(size) : NULL;
    if (rp_st_read(st, s, 0, file ? file : x, size, err) < 0)
        return -1;
    for (size_t i = 0; file && i < whole.count; i++)
        x[rp_from_file(&whole, i)] = file[i];
    sharded_root(root, &whole, m->parallel, x);
    rp_hex(hex, root, 32);
    return 0;
}

int rp_state_file_root(char hex[RP_SHA256_HEX], const char *path, const struct rp_recipe *r, struct rp_err *err)
{
    struct rp_st st;
    RP_JSON *roots = json_object();
    if (rp_st_open(&st, path, err) < 0)
        return -1;
    struct rp_net *m = rp_net_new(r, 1);
    int failed = 0;
    for (int i = 0; i < st.n && !failed; i++) {
        char root[RP_SHA256_HEX];
        if (rp_is_batch_counter(rp_model_of(r)->public, &m->tensors[RP_BUFFER], &st.t[i]))
            continue;
        failed = tensor_root(root, &st, &st.t[i], m, err) < 0;
        if (!failed)
            json_object_set_new(roots, st.t[i].name, json_string(root));
    }
    rp_net_free(m);
    rp_st_close(&st);
    return failed || rp_train_root_of(r, roots, hex, err) < 0 ? -1 : 0;
}

char *rp_replay_state_path(const char *init, int64_t first)
{
    char *path = init ? rp_asprintf("%s/" RP_STATE_OF_STEP, init, first) : NULL;
    if (path && access(path, F_OK) == 0)
        return path;
    free(path);
    return NULL;
}

#include "verify/states.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "train/safetensors.h"
#include "train/state.h"
#include "train/train.h"

#include <stdlib.h>
#include <string.h>

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

static int compare_tensor(struct rp_state_difference *d, const struct pair *p, const struct rp_st_tensor *here, struct rp_err *err)
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

static int tensor_root(char hex[RP_SHA256_HEX], const struct rp_st *st, const struct rp_st_tensor *t, uint32_t *piece, struct rp_err *err)
{
    uint64_t size = t->end - t->begin;
    long leaves = (long)((size + RP_LEAF_BYTES - 1) / RP_LEAF_BYTES), done = 0;
    unsigned char root[32];
    RP_FREE unsigned char *digests = rp_alloc((size_t)(leaves + 1) * 32);
    for (uint64_t at = 0; at < size; at += RP_LEAF_BYTES, done++) {
        size_t n = size - at < RP_LEAF_BYTES ? (size_t)(size - at) : RP_LEAF_BYTES;
        if (rp_st_read(st, t, at, piece, n, err) < 0)
            return -1;
        for (size_t i = 0; i < n / sizeof *piece; i++)
            if (is_nan(piece[i]))
                piece[i] = CANONICAL_NAN;
        rp_sha256_bytes(digests + 32 * done, piece, n);
    }
    if (leaves < 1)
        return rp_fail(err, RP_MISMATCH, "a tensor of '%s' is empty", st->path);
    rp_merkle(root, digests, leaves, 32);
    rp_hex(hex, root, 32);
    return 0;
}

int rp_state_file_root(char hex[RP_SHA256_HEX], const char *path, const struct rp_recipe *r, struct rp_err *err)
{
    struct rp_st st;
    RP_FREE uint32_t *piece = rp_alloc(RP_LEAF_BYTES);
    RP_JSON *roots = json_object();
    if (rp_st_open(&st, path, err) < 0)
        return -1;
    int failed = 0;
    for (int i = 0; i < st.n && !failed; i++) {
        char root[RP_SHA256_HEX];
        failed = tensor_root(root, &st, &st.t[i], piece, err) < 0;
        if (!failed)
            json_object_set_new(roots, st.t[i].name, json_string(root));
    }
    rp_st_close(&st);
    return failed || rp_train_root_of(r, roots, hex, err) < 0 ? -1 : 0;
}

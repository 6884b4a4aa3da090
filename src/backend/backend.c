#include "backend/backend.h"

#include "backend/documents.h"

#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define RP_OBJECT_LIST "backend/documents.def"
#include "base/object_tables.inc.h"

#define EXTENT_MOST (INT_MAX - 4096.0)     /* rounded up to tiles, it is still an int */
#define ELEMENTS_MOST (1024.0 * INT_MAX)   /* an int numbers parts of at least 1024 elements */

const struct rp_backend *rp_backend_find(const struct rp_backend *const *list, const char *name)
{
    while (*list && strcmp((*list)->name, name) != 0)
        list++;
    return *list;
}

const char *rp_class_name(enum rp_class c)
{
    static const char *const names[RP_CLASS_COUNT] = {
        [RP_CLASS_PARAMETERS] = "parameters",     [RP_CLASS_GRADIENTS] = "gradients",
        [RP_CLASS_OPTIMIZER] = "optimizer state", [RP_CLASS_ACTIVATIONS] = "activations",
        [RP_CLASS_SCRATCH] = "scratch",           [RP_CLASS_INPUT] = "input batches",
        [RP_CLASS_BACKEND] = "backend buffers"};
    return (unsigned)c < RP_CLASS_COUNT ? names[c] : "?";
}

const char *rp_class_key(enum rp_class c)
{
    static const char *const keys[RP_CLASS_COUNT] = {
        [RP_CLASS_PARAMETERS] = "parameters",     [RP_CLASS_GRADIENTS] = "gradients",
        [RP_CLASS_OPTIMIZER] = "optimizer_state", [RP_CLASS_ACTIVATIONS] = "activations",
        [RP_CLASS_SCRATCH] = "scratch",           [RP_CLASS_INPUT] = "input_batches",
        [RP_CLASS_BACKEND] = "backend_buffers",
    };
    return keys[c];
}

/* ---- support for calls ---- */

int rp_use_refuse(const struct rp_op_use *u, struct rp_err *err, const char *fmt, ...)
{
    char shape[128], text[300];
    const struct rp_conv *v = &u->conv;
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (rp_use_is_attention(u))
        snprintf(shape, sizeof shape, "over %d keys of %d", u->seq, u->head_dim);
    else if (rp_op_is_conv(u->op))
        snprintf(shape, sizeof shape, "of %d x %d x %d x %d to %d x %d x %d", v->batch, v->in_h, v->in_w, v->in_c,
                 v->out_h, v->out_w, v->out_c);
    else if (u->op == RP_OP_gemm)
        snprintf(shape, sizeof shape, "of %d x %d x %d", u->rows, u->width, u->depth);
    else
        snprintf(shape, sizeof shape, "of %d x %d", u->rows, u->width);
    return rp_fail(err, RP_UNAVAILABLE, "%s %s %s", rp_op_info[u->op].name, shape, text);
}

int rp_use_limit(const struct rp_op_use *u, const char *what, double is, double most, struct rp_err *err)
{
    return is <= most ? 0
                      : rp_use_refuse(u, err, "has %.0f %s, at most %.0f are supported; try a smaller train.batch_size",
                                      is, what, most);
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

int rp_use_check(const struct rp_op_use *u, const char *backend, struct rp_err *err)
{
    RP_BUG_IF((unsigned)u->op >= RP_OP_COUNT || u->rows < 0 || u->width < 0 || u->depth < 0);
    RP_BUG_IF(u->batch < 0 || u->seq < 0 || u->heads < 0 || u->head_dim < 0);
    if (!(rp_op_info[u->op].types >> u->dtype & 1))
        return rp_use_refuse(u, err,
                             "is not computed in %s by the %s backend, only in F32; set train.precision to fp32",
                             rp_dtype_name(u->dtype), backend);
    double rows = u->rows, width = u->width, depth = 1;
    if (u->op == RP_OP_gemm)
        depth = u->depth;
    if (rp_use_is_attention(u)) {
        rows = larger((double)u->batch * u->seq, (double)u->batch * u->heads);
        width = 3.0 * u->heads * u->head_dim;
    }
    double elements = larger(rows * width, larger(rows * depth, depth * width));
    if (rp_op_is_conv(u->op)) {
        const struct rp_conv *c = &u->conv;
        rows = c->batch * larger((double)c->in_h * c->in_w, (double)c->out_h * c->out_w);
        width = larger(c->in_c, c->out_c);
        depth = (double)c->kernel_h * c->kernel_w * width;
        elements = larger(rows * width, (double)c->kernel_h * c->kernel_w * c->in_c * c->out_c);
    }
    return rp_use_limit(u, "rows or columns", larger(rows, larger(width, depth)), EXTENT_MOST, err) < 0
               ? -1
               : rp_use_limit(u, "elements", elements, ELEMENTS_MOST, err);
}

/* The reason why a backend cannot compute in an arithmetic; NULL: it can. */
static int check_numerics(const struct rp_backend *b, const struct rp_device_opts *o, struct rp_err *err)
{
    if (rp_is_mixed(o->numerics) && !b->mixed)
        return rp_fail(err, RP_UNAVAILABLE,
                       "the %s backend computes in strict fp32 alone, not in %s: take --backend cpu, or set "
                       "train.precision to fp32",
                       b->name, rp_numerics_name(o->numerics));
    return 0;
}

int rp_backend_ask(const struct rp_backend *b, const struct rp_device_opts *o, const struct rp_op_use *use, int n,
                   size_t *workspace, struct rp_err *err)
{
    *workspace = 0;
    if (check_numerics(b, o, err) < 0)
        return -1;
    for (int i = 0; i < n; i++) {
        if (b->supports(o, &use[i], err) < 0)
            return -1;
        size_t bytes = b->needs(o, &use[i]);
        *workspace = bytes > *workspace ? bytes : *workspace;
    }
    return 0;
}

struct rp_dev *rp_backend_open(const struct rp_backend *b, const struct rp_device_opts *o, const struct rp_op_use *use,
                               int n, struct rp_err *err)
{
    size_t workspace;
    return rp_backend_ask(b, o, use, n, &workspace, err) < 0 ? NULL : b->open(o, workspace, err);
}

/* ---- devices in documents ---- */

static json_t *proof_json(const struct rp_device_proof *p)
{
    const int proved = strcmp(p->outcome, "proved") == 0;
    if (!*p->outcome)
        return NULL;
    return json_pack("{s:s, s:s?, s:o, s:s?}", "outcome", p->outcome, "sums_sha256", proved ? p->sums_sha256 : NULL,
                     "edges", proved ? json_integer(p->edges) : json_null(), "instruction",
                     proved ? p->instruction : NULL);
}

json_t *rp_device_json(const struct rp_device_info *d)
{
    char capability[24];
    snprintf(capability, sizeof capability, "%d.%d", d->major, d->minor);
    if (strcmp(d->kind, "cpu") == 0)
        return json_pack("{s:s, s:s, s:s, s:i}", "kind", d->kind, "name", d->name, "isa", d->isa, "threads",
                         d->threads);
    return json_pack("{s:s, s:s, s:i, s:s, s:s*, s:o*}", "kind", d->kind, "name", d->name, "index", d->index,
                     "compute_capability", capability, "pci_address", *d->pci_address ? d->pci_address : NULL,
                     "tensor_core", proof_json(&d->proof));
}

int rp_device_from_json(struct rp_device_info *out, const json_t *j)
{
    RP_READ(device_document, d, j);
    *out = (struct rp_device_info){.threads = (int)d.threads, .index = (int)d.index};
    snprintf(out->kind, sizeof out->kind, "%s", rp_text_or_empty(d.kind));
    snprintf(out->name, sizeof out->name, "%s", rp_text_or_empty(d.name));
    snprintf(out->isa, sizeof out->isa, "%s", rp_text_or_empty(d.isa));
    snprintf(out->pci_address, sizeof out->pci_address, "%s", rp_text_or_empty(d.pci_address));
    (void)!sscanf(rp_text_or_empty(d.compute_capability), "%d.%d", &out->major, &out->minor);
    return *out->kind ? 0 : -1;
}

const char *rp_device_text(char text[RP_DEVICE_TEXT], const json_t *j)
{
    struct rp_device_info d;
    if (rp_device_from_json(&d, j) < 0)
        snprintf(text, RP_DEVICE_TEXT, "unknown");
    else if (strcmp(d.kind, "cpu") == 0)
        snprintf(text, RP_DEVICE_TEXT, "%s%s%s, %d thread%s", d.name, *d.name ? ", " : "", d.isa, d.threads,
                 d.threads == 1 ? "" : "s");
    else
        snprintf(text, RP_DEVICE_TEXT, "%s, device %d, compute capability %d.%d", d.name, d.index, d.major, d.minor);
    return text;
}

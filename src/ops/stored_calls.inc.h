/* Every operation on stored tensors, with those of its arguments that are, and their elements: stored_NAME(), and
 * stored_rows_of() for a table of them. Included once by who calls operations with other tensors than it is given: it
 * defines
 *
 *   struct stored_call, with `ops` and `dev`, the operations that are called and their device
 *   stored_begin(dev), stored_tensor(&w, pointer, elements, is_result), which returns the tensor to pass on,
 *   stored_end(&w)
 *
 * A tensor may be named twice, in place, with the same elements; NULL has none. Extend: a new operation on stored
 * tensors has a CALL() and its name in stored_rows_of() here. */

#define READ(p, n) stored_tensor(&w, p, (size_t)(n), 0)
#define WRITTEN(p, n) stored_tensor(&w, p, (size_t)(n), 1)
#define CALL(name, ...)                                                                                                \
    static inline void stored_##name(struct rp_dev *dev, __VA_ARGS__)                                                  \
    {                                                                                                                  \
        struct stored_call w = stored_begin(dev);
#define CALL_END                                                                                                       \
    stored_end(&w);                                                                                                    \
    }

/* Elements from the first of a matrix to its last. */
static inline size_t stored_matrix(long rows, long cols, long ld)
{
    return rows && cols ? (size_t)((rows - 1) * ld + cols) : 0;
}

static inline long stored_rows(const int32_t *index, long n)
{
    long most = -1;
    for (long i = 0; i < n; i++)
        most = index[i] > most ? index[i] : most;
    return most + 1;
}

CALL(gemm, const struct rp_gemm *g)
    struct rp_gemm h = *g;
    h.a = READ(g->a, g->ta ? stored_matrix(g->k, g->m, g->lda) : stored_matrix(g->m, g->k, g->lda));
    h.b = READ(g->b, g->tb ? stored_matrix(g->n, g->k, g->ldb) : stored_matrix(g->k, g->n, g->ldb));
    h.c = WRITTEN(g->c, stored_matrix(g->m, g->n, g->ldc));
    h.add = READ(g->add, stored_matrix(g->m, g->n, g->ldadd));
    w.ops->gemm(w.dev, &h);
CALL_END

CALL(embed_forward, rp_stored *z, const int32_t *ids, const int32_t *types, const int32_t *positions,
     const rp_stored *word, const rp_stored *type, const rp_stored *position, int rows, int seq, int width)
w.ops->embed_forward(w.dev, WRITTEN(z, rows *width), ids, types, positions, READ(word, stored_rows(ids, rows) * width),
                     READ(type, type ? stored_rows(types, rows) * width : 0),
                     READ(position, (positions    ? stored_rows(positions, rows)
                                     : rows < seq ? rows
                                                  : seq) *
                                        width),
                     rows, seq, width);
CALL_END

#define NORM(name, whole)                                                                                              \
    CALL(name, const struct rp_layernorm *n)                                                                           \
        struct rp_layernorm h = *n;                                                                                    \
        const size_t all = (size_t)n->rows * (size_t)n->width;                                                         \
        h.x = READ(n->x, all);                                                                                         \
        h.residual = READ(whole ? n->residual : NULL, all);                                                            \
        h.y = WRITTEN(n->y, all);                                                                                      \
        h.kept = WRITTEN(n->kept, all);                                                                                \
        h.z = WRITTEN(whole ? n->z : NULL, all);                                                                       \
        w.ops->name(w.dev, &h);                                                                                        \
    CALL_END
NORM(layernorm_forward, 0)
NORM(residual_layernorm_forward, 1)
NORM(layernorm_apply, 0)

CALL(layernorm_backward, const struct rp_layernorm_grad *g)
    struct rp_layernorm_grad h = *g;
    const size_t all = (size_t)g->rows * (size_t)g->width;
    h.dy = READ(g->dy, all);
    h.add = READ(g->add, all);
    h.kept = READ(g->kept, all);
    h.dz = WRITTEN(g->dz, all);
    h.dx = WRITTEN(g->dx, all);
    w.ops->layernorm_backward(w.dev, &h);
CALL_END

CALL(dropout_forward, rp_stored *y, uint8_t *mask, const rp_stored *x, const struct rp_dropout *drop, int rows,
     int width)
w.ops->dropout_forward(w.dev, WRITTEN(y, rows *width), mask, READ(x, rows *width), drop, rows, width);
CALL_END
CALL(dropout_backward, rp_stored *dx, const rp_stored *dy, const uint8_t *mask, const struct rp_dropout *drop, int rows,
     int width)
w.ops->dropout_backward(w.dev, WRITTEN(dx, rows *width), READ(dy, rows *width), mask, drop, rows, width);
CALL_END

#define POINTWISE(name)                                                                                                \
    CALL(name##_forward, rp_stored *y, const rp_stored *x, int rows, int width)                                        \
        w.ops->name##_forward(w.dev, WRITTEN(y, rows * width), READ(x, rows * width), rows, width);                    \
    CALL_END                                                                                                           \
    CALL(name##_backward, rp_stored *dx, float *dbias, const rp_stored *dy, const rp_stored *x, int rows, int width,   \
           float *work)                                                                                                \
        w.ops->name##_backward(w.dev, WRITTEN(dx, rows * width), dbias, READ(dy, rows * width), READ(x, rows * width), \
                                rows, width, work);                                                                    \
    CALL_END
POINTWISE(gelu)
POINTWISE(gelu_tanh)
POINTWISE(tanh)

CALL(colsum, float *dbias, const rp_stored *dy, int rows, int width, float *work)
    w.ops->colsum(w.dev, dbias, READ(dy, rows * width), rows, width, work);
CALL_END
CALL(bias_add, rp_stored *y, const float *x, const float *bias, int rows, int width)
    w.ops->bias_add(w.dev, WRITTEN(y, rows * width), x, bias, rows, width);
CALL_END

CALL(attention_forward, rp_stored *o, float *row_max, float *row_inv, uint8_t *mask, const rp_stored *qkv,
       const struct rp_attention *a)
    const size_t all = (size_t)a->batch * (size_t)a->seq * (size_t)(a->heads * a->head_dim);
    w.ops->attention_forward(w.dev, WRITTEN(o, all), row_max, row_inv, mask, READ(qkv, 3 * all), a);
CALL_END
CALL(attention_backward, const struct rp_attention_grad *g)
    struct rp_attention_grad h = *g;
    const size_t all = (size_t)g->a->batch * (size_t)g->a->seq * (size_t)(g->a->heads * g->a->head_dim);
    h.d_o = READ(g->d_o, all);
    h.qkv = READ(g->qkv, 3 * all);
    h.o = READ(g->o, all);
    h.dqkv = WRITTEN(g->dqkv, 3 * all);
    w.ops->attention_backward(w.dev, &h);
CALL_END

CALL(gather_rows, rp_stored *y, const rp_stored *x, const int32_t *index, int n, int width)
    w.ops->gather_rows(w.dev, WRITTEN(y, n * width), READ(x, stored_rows(index, n) * width), index, n, width);
CALL_END
CALL(row_sums, float *dst, const rp_stored *src, const struct rp_row_groups *g, int width, int add)
    w.ops->row_sums(w.dev, dst, READ(src, stored_rows(g->source, g->start[g->n]) * width), g, width, add);
CALL_END

static inline size_t stored_in(const struct rp_conv *c)
{
    return (size_t)c->batch * (size_t)c->in_h * (size_t)c->in_w * (size_t)c->in_c;
}
static inline size_t stored_out(const struct rp_conv *c)
{
    return (size_t)rp_conv_rows(c) * (size_t)c->out_c;
}
CALL(conv_forward, rp_stored *y, float *mean, const rp_stored *x, const rp_stored *f, const struct rp_conv *c,
     float *work)
w.ops->conv_forward(w.dev, WRITTEN(y, stored_out(c)), mean, READ(x, stored_in(c)), READ(f, c->out_c *rp_conv_taps(c)),
                    c, work);
CALL_END
CALL(conv_dgrad, rp_stored *dx, const rp_stored *dy, const rp_stored *f, const rp_stored *add, const struct rp_conv *c)
    w.ops->conv_dgrad(w.dev, WRITTEN(dx, stored_in(c)), READ(dy, stored_out(c)), READ(f, c->out_c * rp_conv_taps(c)),
                       READ(add, stored_in(c)), c);
CALL_END
CALL(conv_wgrad, float *dw, const rp_stored *dy, const rp_stored *x, const struct rp_conv *c, float *work)
    w.ops->conv_wgrad(w.dev, dw, READ(dy, stored_out(c)), READ(x, stored_in(c)), c, work);
CALL_END

#define BATCHNORM(name)                                                                                                \
    CALL(name, const struct rp_batchnorm *n)                                                                           \
        struct rp_batchnorm h = *n;                                                                                    \
        const size_t all = (size_t)n->rows * (size_t)n->width;                                                         \
        h.x = READ(n->x, all);                                                                                         \
        h.add = READ(n->add, all);                                                                                     \
        h.y = WRITTEN(n->y, all);                                                                                      \
        w.ops->name(w.dev, &h);                                                                                        \
    CALL_END
BATCHNORM(batchnorm_forward)
BATCHNORM(batchnorm_apply)
CALL(batchnorm_backward, const struct rp_batchnorm_grad *g)
    struct rp_batchnorm_grad h = *g;
    const size_t all = (size_t)g->rows * (size_t)g->width;
    h.dy = READ(g->dy, all);
    h.x = READ(g->x, all);
    h.y = READ(g->y, all);
    h.dx = WRITTEN(g->dx, all);
    h.dadd = WRITTEN(g->dadd, all);
    w.ops->batchnorm_backward(w.dev, &h);
CALL_END

CALL(maxpool_forward, rp_stored *y, uint8_t *which, const rp_stored *x, const struct rp_conv *c)
    w.ops->maxpool_forward(w.dev, WRITTEN(y, stored_out(c)), which, READ(x, stored_in(c)), c);
CALL_END
CALL(maxpool_backward, rp_stored *dx, const rp_stored *dy, const uint8_t *which, const struct rp_conv *c)
    w.ops->maxpool_backward(w.dev, WRITTEN(dx, stored_in(c)), READ(dy, stored_out(c)), which, c);
CALL_END
CALL(avgpool_forward, rp_stored *y, const rp_stored *x, int batch, int pixels, int width)
    w.ops->avgpool_forward(w.dev, WRITTEN(y, batch * width), READ(x, batch * pixels * width), batch, pixels, width);
CALL_END
CALL(avgpool_backward, rp_stored *dx, const rp_stored *dy, int batch, int pixels, int width)
    w.ops->avgpool_backward(w.dev, WRITTEN(dx, batch * pixels * width), READ(dy, batch * width), batch, pixels, width);
CALL_END
CALL(scale_pixels, rp_stored *x, const uint8_t *pixel, const float *scale, const float *shift, size_t n, int width)
    w.ops->scale_pixels(w.dev, WRITTEN(x, n * (size_t)width), pixel, scale, shift, n, width);
CALL_END

CALL(argmax_rows, int32_t *index, const rp_stored *x, long ld, int n, int classes)
    w.ops->argmax_rows(w.dev, index, READ(x, stored_matrix(n, classes, ld)), ld, n, classes);
CALL_END
CALL(softmax_xent, float *loss, rp_stored *z, long ld, const int32_t *labels, const float *coef, float scale, int n,
     int classes, int shards)
w.ops->softmax_xent(w.dev, loss, WRITTEN(z, stored_matrix(n, classes, ld)), ld, labels, coef, scale, n, classes,
                    shards);
CALL_END
CALL(softmax_xent_smoothed, float *loss, rp_stored *z, long ld, const int32_t *labels, const float *coef, float scale,
     int n, int classes, float smoothing)
w.ops->softmax_xent_smoothed(w.dev, loss, WRITTEN(z, stored_matrix(n, classes, ld)), ld, labels, coef, scale, n,
                             classes, smoothing);
CALL_END

CALL(round_stored, rp_stored *dst, const float *src, const rp_stored *add, size_t n)
    w.ops->round_stored(w.dev, WRITTEN(dst, n), src, READ(add, n), n);
CALL_END
CALL(add_stored, rp_stored *dst, const rp_stored *a, const rp_stored *b, size_t n)
    w.ops->add_stored(w.dev, WRITTEN(dst, n), READ(a, n), READ(b, n), n);
CALL_END
CALL(find_nonfinite_stored, int64_t *index, const rp_stored *x, size_t n)
    w.ops->find_nonfinite_stored(w.dev, index, READ(x, n), n);
CALL_END

/* The rows of t that are on stored tensors become those above. */
static inline void stored_rows_of(struct rp_ops *t)
{
#define ROW(name) t->name = stored_##name;
#define ROWS(X)                                                                                                        \
    X(gemm)                                                                                                            \
    X(embed_forward) X(layernorm_forward) X(residual_layernorm_forward) X(layernorm_apply) X(layernorm_backward)       \
        X(dropout_forward) X(dropout_backward) X(gelu_forward) X(gelu_backward) X(gelu_tanh_forward)                   \
            X(gelu_tanh_backward) X(tanh_forward) X(tanh_backward) X(colsum) X(bias_add) X(attention_forward)          \
                X(attention_backward) X(gather_rows) X(row_sums) X(conv_forward) X(conv_dgrad) X(conv_wgrad)           \
                    X(batchnorm_forward) X(batchnorm_apply) X(batchnorm_backward) X(maxpool_forward)                   \
                        X(maxpool_backward) X(avgpool_forward) X(avgpool_backward) X(scale_pixels) X(argmax_rows)      \
                            X(softmax_xent) X(softmax_xent_smoothed) X(round_stored) X(add_stored)                     \
                                X(find_nonfinite_stored)
    ROWS(ROW)
#undef ROW
#undef ROWS
}
#undef READ
#undef WRITTEN
#undef CALL
#undef CALL_END
#undef NORM
#undef POINTWISE
#undef BATCHNORM

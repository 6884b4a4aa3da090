/* The cases of convolution, batch norm, pooling, pixels and predicted classes: a part of op_check.c, which includes it
 * once. */

#define IN_PIXELS (size_t)(s->conv.batch * s->conv.in_h * s->conv.in_w)
#define OUT_PIXELS ((size_t)rp_conv_rows(&s->conv))
#define WEIGHTS ((size_t)s->conv.out_c * (size_t)rp_conv_taps(&s->conv))
#define IN_SIZE (IN_PIXELS * (size_t)s->conv.in_c)
#define OUT_SIZE (OUT_PIXELS * (size_t)s->conv.out_c)

CASE(conv_forward)
{
    each x = filled(c, IN_SIZE, 2.0f), w = filled(c, WEIGHTS, 2.0f), y = blank(c, OUT_SIZE),
         mean = blank(c, (size_t)s->conv.out_c);
    for (int k = 0; k < sides(c); k++) {
        float *work = work_of(c, k, rp_colsum_work((long)OUT_PIXELS, s->conv.out_c));
        c->table[k]->conv_forward(c->dev[k], y.of[k], has(s, RP_VARIANT_NO_MEAN) ? NULL : mean.of[k], x.of[k], w.of[k],
                                  &s->conv, work);
    }
}

CASE(conv_dgrad)
{
    each dy = filled(c, OUT_SIZE, 2.0f), w = filled(c, WEIGHTS, 2.0f), dx = filled(c, IN_SIZE, 2.0f),
         add = filled(c, IN_SIZE, 2.0f);
    EVERY(conv_dgrad, dx.of[k], dy.of[k], w.of[k],
          !has(s, RP_VARIANT_ADDED) ? NULL
          : s->in_place             ? dx.of[k]
                                    : add.of[k],
          &s->conv);
}

CASE(conv_wgrad)
{
    each dy = filled(c, OUT_SIZE, 2.0f), x = filled(c, IN_SIZE, 2.0f), dw = blank(c, WEIGHTS);
    for (int k = 0; k < sides(c); k++) {
        float *work = work_of(c, k, rp_conv_wgrad_work(&s->conv));
        c->table[k]->conv_wgrad(c->dev[k], dw.of[k], dy.of[k], x.of[k], &s->conv, work);
    }
}

CASE(batchnorm_forward)
{
    size_t w = (size_t)WIDTH;
    each x = filled(c, ALL, 3.0f), mean = filled(c, w, 1.0f), gamma = filled(c, w, 2.0f), beta = filled(c, w, 2.0f),
         add = filled(c, ALL, 2.0f);
    each y = s->in_place                     ? x
             : has(s, RP_VARIANT_OVER_ADDED) ? add
                                             : blank(c, ALL),
         var = blank(c, w), rstd = blank(c, w);
    for (int k = 0; k < sides(c); k++) {
        struct rp_batchnorm n = {.rows = ROWS, .width = WIDTH, .eps = 1e-5f, .relu = has(s, RP_VARIANT_RELU),
                                 .x = x.of[k], .mean = mean.of[k], .gamma = gamma.of[k], .beta = beta.of[k],
                                 .var = var.of[k], .rstd = rstd.of[k],
                                 .work = work_of(c, k, rp_colsum_work(ROWS, WIDTH))};
        n.add = has(s, RP_VARIANT_ADD_INPUT) ? add.of[k] : NULL;
        n.y = has(s, RP_VARIANT_STATISTICS) ? NULL : y.of[k];
        c->table[k]->batchnorm_forward(c->dev[k], &n);
    }
}

CASE(batchnorm_apply)
{
    size_t w = (size_t)WIDTH;
    each x = filled(c, ALL, 3.0f), mean = filled(c, w, 1.0f), gamma = filled(c, w, 2.0f), beta = filled(c, w, 2.0f),
         add = filled(c, ALL, 2.0f);
    each y = s->in_place ? x : has(s, RP_VARIANT_OVER_ADDED) ? add : blank(c, ALL), rstd = filled_positive(c, w, 2.0f);
    for (int k = 0; k < sides(c); k++) {
        struct rp_batchnorm n = {.rows = ROWS, .width = WIDTH, .relu = has(s, RP_VARIANT_RELU), .x = x.of[k],
                                 .mean = mean.of[k], .gamma = gamma.of[k], .beta = beta.of[k], .y = y.of[k],
                                 .rstd = rstd.of[k]};
        n.add = has(s, RP_VARIANT_ADD_INPUT) ? add.of[k] : NULL;
        c->table[k]->batchnorm_apply(c->dev[k], &n);
    }
}

CASE(batchnorm_backward)
{
    size_t w = (size_t)WIDTH;
    each dy = filled(c, ALL, 2.0f), x = filled(c, ALL, 3.0f), y = filled(c, ALL, 2.0f), mean = filled(c, w, 1.0f);
    each rstd = filled_positive(c, w, 2.0f), gamma = filled(c, w, 2.0f), dgamma = blank(c, w), dbeta = blank(c, w);
    each dx = s->in_place                     ? dy
              : has(s, RP_VARIANT_OVER_ADDED) ? x
                                              : blank(c, ALL),
         dadd = !s->in_place && has(s, RP_VARIANT_OVER_ADDED) ? dy : blank(c, ALL);
    for (int k = 0; k < sides(c); k++) {
        struct rp_batchnorm_grad g = {.rows = ROWS, .width = WIDTH, .dy = dy.of[k], .x = x.of[k], .mean = mean.of[k],
                                      .rstd = rstd.of[k], .gamma = gamma.of[k], .dx = dx.of[k], .dgamma = dgamma.of[k],
                                      .dbeta = dbeta.of[k], .work = work_of(c, k, rp_colsum_work(ROWS, 2l * WIDTH))};
        g.y = has(s, RP_VARIANT_RELU) ? y.of[k] : NULL;
        g.dadd = has(s, RP_VARIANT_ADD_INPUT) ? dadd.of[k] : NULL;
        c->table[k]->batchnorm_backward(c->dev[k], &g);
    }
}

/* Whole numbers from -2 to 2: equal values occur. */
static each filled_whole(struct ctx *c, size_t n)
{
    each p = blank(c, n);
    for (size_t i = 0; i < n; i++)
        p.of[0][i] = (float)(draw(c) % 5) - 2.0f;
    SHARE(p, n);
    return p;
}

CASE(maxpool_forward)
{
    each x = filled_whole(c, IN_SIZE), y = blank(c, OUT_SIZE);
    struct bytes which = blank_bytes(c, OUT_SIZE);
    EVERY(maxpool_forward, y.of[k], which.of[k], x.of[k], &s->conv);
}

CASE(maxpool_backward)
{
    each x = filled_whole(c, IN_SIZE), y = blank(c, OUT_SIZE), dy = filled(c, OUT_SIZE, 2.0f), dx = blank(c, IN_SIZE);
    struct bytes which = blank_bytes(c, OUT_SIZE);
    EVERY(maxpool_forward, y.of[k], which.of[k], x.of[k], &s->conv);
    EVERY(maxpool_backward, dx.of[k], dy.of[k], which.of[k], &s->conv);
}

CASE(avgpool_forward)
{
    size_t images = (size_t)s->batch;
    each x = filled(c, images * ALL, 2.0f), y = blank(c, images * (size_t)WIDTH);
    EVERY(avgpool_forward, y.of[k], x.of[k], s->batch, ROWS, WIDTH);
}

CASE(avgpool_backward)
{
    size_t images = (size_t)s->batch;
    each dy = filled(c, images * (size_t)WIDTH, 2.0f), dx = blank(c, images * ALL);
    EVERY(avgpool_backward, dx.of[k], dy.of[k], s->batch, ROWS, WIDTH);
}

CASE(scale_pixels)
{
    static const float scale[4] = {0.017124754f, 0.017507003f, 0.017429194f, 0.5f},
                       shift[4] = {-2.117904f, -2.0357144f, -1.8044444f, 1.0f};
    struct bytes pixel = blank_bytes(c, ALL * 3);
    for (size_t i = 0; i < ALL * 3; i++)
        pixel.of[0][i] = (uint8_t)draw(c);
    SHARE(pixel, ALL * 3);
    const int width = 1 + (int)(s->variant + 2) % 4, n = (int)(ALL * 3) / width;
    each x = filled(c, ALL * 3, 1.0f);
    EVERY(scale_pixels, x.of[k], pixel.of[k], scale, shift, (size_t)n, width);
}

CASE(argmax_rows)
{
    long ld = WIDTH + 3;
    each x = s->variant & 1 ? filled_whole(c, (size_t)ROWS * (size_t)ld) : filled(c, (size_t)ROWS * (size_t)ld, 2.0f);
    struct ints index = indices(c, (size_t)ROWS, 1);
    EVERY(argmax_rows, index.of[k], x.of[k], ld, ROWS, WIDTH);
}

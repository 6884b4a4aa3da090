/* The operands of a convolution with tensor cores, as gemm16.cuh copies them: where a number of them is in memory. A
 * part of gemm16.cuh.
 *
 * k counts the taps of a window with the zeros that fill blocks (ops/ops.h): `each` k-steps a tap, `row` a row of taps.
 * A piece of eight numbers has one tap where channels come in eights (`fast`); else numbers are found one by one. What
 * is outside of an image, and the zeros of padding, are no memory: -1.
 *
 *   forward   C[pixel, oc] = image by k * filters by k
 *   dgrad     C[pixel, ic] = image of dy by k * transposed filters. With a stride, taps between pixels of dy are zeros;
 *             where they fill whole blocks, pixels of a phase, which meet the same taps, are a product of their own
 *             without them. That changes no chain: blocks of zeros add nothing, and infinite weights end a run in its
 *             forward pass
 *   wgrad     C[oc, tap]   = dy by rows * pixels by rows, taps without padding
 */

struct conv16_tap {
    int h, w, c;
};

RP_DEVICE int conv16_divide(int n, unsigned by)
{
    return (int)__umulhi((unsigned)n + (by == ~0u), by);
}

/* In a window of rows of `row` numbers and taps of `each`. */
RP_DEVICE struct conv16_tap conv16_tap_of(int k, int row, unsigned by_row, int each, unsigned by_each)
{
    struct conv16_tap t;
    t.h = conv16_divide(k, by_row);
    t.w = conv16_divide(k - t.h * row, by_each);
    t.c = k - t.h * row - t.w * each;
    return t;
}

/* The first element of pixel 0 of the image of row r of C, or of k-step r; its row and column there. */
RP_DEVICE struct conv16_tap conv16_pixel_of(const struct rp_conv16_args *v, int r)
{
    const int line = conv16_divide(r, v->by_to_width), image = conv16_divide(line, v->by_to_height);
    struct conv16_tap p;
    p.w = r - line * v->to_width;
    p.h = line - image * v->to_height;
    p.c = image * v->height * v->width * v->channels;
    return p;
}

RP_DEVICE int conv16_is_image(int gather)
{
    return gather == CONV16_IMAGE || gather == CONV16_BACK;
}

/* What lines of an image by k have to know; first k-step of the segment. */
RP_DEVICE void conv16_begin(struct gemm16_side *x, const struct rp_conv16_args *v, int gather, int tile_rows, int threads, int row, int k0)
{
    x->conv = v;
    x->row = row;
    x->k = k0;
    if (gather == GEMM16_MATRIX)
        return;
    x->first = conv16_is_image(gather) ? v->g.a : v->g.b;
    RP_UNROLL
    for (int i = 0; conv16_is_image(gather) && i < tile_rows * TC_DEPTH / TC_PIECE / threads; i++) {
        const int r = v->first_row + row + x->line + i * gemm16_lines(1, tile_rows, threads);
        const struct conv16_tap p = conv16_pixel_of(v, r);
        x->h[i] = gather == CONV16_BACK ? p.h + v->pad_top : p.h * v->stride - v->pad_top;
        x->w[i] = gather == CONV16_BACK ? p.w + v->pad_left : p.w * v->stride - v->pad_left;
        x->at[i] = p.c;
    }
}

/* The pixel of dy that a tap meets, of a multiple of the stride; -1: none. */
RP_DEVICE int conv16_back(int at, int stride, unsigned by_stride)
{
    const int to = conv16_divide(at < 0 ? 0 : at, by_stride);
    return at < 0 || to * stride != at ? -1 : to;
}

RP_DEVICE int conv16_element(const struct rp_conv16_args *v, int image, int h, int w, int c, int is_there)
{
    return is_there && (unsigned)h < (unsigned)v->height && (unsigned)w < (unsigned)v->width ? image + (h * v->width + w) * v->channels + c : -1;
}

/* Of k-step k and row `row` of the operand. i: the thread's line of an image by k. */
RP_DEVICE int conv16_offset(const struct gemm16_side *x, int gather, int i, int k, int row)
{
    const struct rp_conv16_args *v = x->conv;
    if (gather == CONV16_PIXELS) {
        const struct conv16_tap p = conv16_pixel_of(v, k);
        const struct conv16_tap t = conv16_tap_of(row, v->kernel_w * v->channels, v->by_taps, v->channels, v->by_channels);
        return conv16_element(v, p.c, p.h * v->stride + t.h - v->pad_top, p.w * v->stride + t.w - v->pad_left, t.c, 1);
    }
    const struct conv16_tap t = conv16_tap_of(k, v->row, v->by_row, v->each, v->by_each);
    const int is_there = t.w < v->kernel_w && t.c < v->depth;
    if (gather == CONV16_BACK)
        return conv16_element(v, x->at[i], conv16_back(x->h[i] - t.h, v->stride, v->by_stride), conv16_back(x->w[i] - t.w, v->stride, v->by_stride),
                              t.c, is_there);
    if (gather == CONV16_IMAGE)
        return conv16_element(v, x->at[i], x->h[i] + t.h, x->w[i] + t.w, t.c, is_there);
    const int tap = v->tap + t.h * v->tap_down + t.w * v->tap_across;
    if (!is_there)
        return -1;
    return gather == CONV16_FILTERS ? (row * v->taps + tap) * v->depth + t.c : (t.c * v->taps + tap) * v->g.n + row;
}

/* The row of C of row r of a product of a phase. */
RP_DEVICE int conv16_row(const struct rp_conv16_args *v, int r)
{
    const int line = conv16_divide(r, v->by_to_width), image = conv16_divide(line, v->by_to_height);
    const int w = r - line * v->to_width, h = line - image * v->to_height;
    return (image * v->all_height + v->at_h + h * v->step) * v->all_width + v->at_w + w * v->step;
}

/* A strip of a convolution's left operand: mr pixels x the k-steps of a block, gathered from the image into L1, +0
 * where a tap is outside of it. */

/* A run of a strip: its place relative to the first one, and which of its k-steps, c0..c1, are wanted. */
struct conv_piece {
    long h, w, offset, c0, c1;
};

/* dst = that piece of the pixel whose first run starts at (h, w), `at` floats from the image's start; +0 outside the
 * image. */
RP_LANE void conv_copy_piece(float *dst, const struct conv_job *o, const struct conv_piece *p, long h, long w, long at)
{
    const float *src = o->image + (at + p->offset);
    h += p->h;
    w += p->w;
    if (h < 0 || h >= o->image_h) {
        conv_zero(dst, p->c1 - p->c0);
    } else if (w >= 0 && w + o->pixels <= o->image_w) {
        conv_copy(dst, src + p->c0, p->c1 - p->c0);
    } else {
        const long a = conv_clamp(-w * o->channels, p->c0, p->c1),
                   b = conv_clamp((o->image_w - w) * o->channels, a, p->c1);
        conv_zero(dst, a - p->c0);
        if (a < b)
            conv_copy(dst + (a - p->c0), src + a, b - a);
        conv_zero(dst + (b - p->c0), p->c1 - b);
    }
}

/* k-steps k0..k1 of `rows` pixels from p on. */
static void conv_gather(const struct conv_job *o, const struct conv_region *g, float *strip, struct conv_pixel p,
                        int rows, long k0, long k1)
{
    const long length = o->pixels * o->channels;
    long h[RP_GEMM_GROUP], w[RP_GEMM_GROUP], at[RP_GEMM_GROUP];
    long run = k0 / length, run_h = run / o->runs_w, run_w = run % o->runs_w;
    for (int r = 0; r < rows; r++, conv_advance(g, &p, 1)) {
        h[r] = p.h * o->step + o->dh;
        w[r] = p.w * o->step + o->dw;
        at[r] = ((p.n * o->image_h + h[r]) * o->image_w + w[r]) * o->channels;
    }
    struct conv_piece piece = {.c0 = k0 - run * length};
    for (long k = k0; k < k1; piece.c0 = 0) {
        piece.c1 = least_of(length, piece.c0 + k1 - k);
        piece.h = run_h * o->dh_run;
        piece.w = run_w * o->dw_run;
        piece.offset = (piece.h * o->image_w + piece.w) * o->channels;
        for (int r = 0; r < rows; r++)
            conv_copy_piece(strip + r * CONV_STRIP_LD + (k - k0), o, &piece, h[r], w[r], at[r]);
        k += piece.c1 - piece.c0;
        if (++run_w == o->runs_w) {
            run_w = 0;
            run_h++;
        }
    }
}

/* Strips of pixels that tiles read where the image has them, instead of gathering them: pixels side by side, all of
 * whose taps are inside the image, so that their k-steps are the same runs of memory, a constant distance apart. A
 * strip may pass the end of a row once, after an even number of pixels: the others are then some floats farther.
 *
 *      image   a b c d e      3x3: pixel g takes the runs abc, fgh, klm, pixel h the runs bcd, ghi, lmn;
 *              f g h i j      a data gradient takes the same pixels one by one, from the last
 *              k l m n o
 */

#define CONV_RUNS 64 /* most runs of a block */

/* The k-steps of a block. */
struct conv_runs {
    int count;           /* 0: strips are gathered */
    long first;          /* the first step, in floats from the pixel's own place */
    long h0, h1, w0, w1; /* pixels h0..h1, w0..w1 from that place are taken, the last ones included */
    struct rp_gemm_run run[CONV_RUNS];
};

/* panels: how many a strip passes */
static void conv_find_runs(const struct conv_job *o, struct conv_runs *s, long panels, long k0, long k1)
{
    const long length = o->pixels * o->channels;
    long end = 0;
    s->count = 0;
    if (!o->kernel->in_runs || panels > o->kernel->runs_panels || o->is_plain ||
        blocks_of(k1 - k0, length) + 1 > CONV_RUNS)
        return;
    s->h0 = s->w0 = LONG_MAX;
    s->h1 = s->w1 = LONG_MIN;
    for (long k = k0; k < k1;) {
        const long run = k / length, c0 = k - run * length, c1 = least_of(length, c0 + k1 - k);
        const long h = run / o->runs_w * o->dh_run, w = run % o->runs_w * o->dw_run;
        const long at = (h * o->image_w + w) * o->channels + c0, w0 = w + c0 / o->channels,
                   w1 = w + (c1 - 1) / o->channels;
        if (s->count)
            s->run[s->count - 1].skip = at - end;
        else
            s->first = at;
        s->run[s->count++] = (struct rp_gemm_run){c1 - c0, 0};
        end = at + (c1 - c0);
        s->h0 = h < s->h0 ? h : s->h0;
        s->h1 = h > s->h1 ? h : s->h1;
        s->w0 = w0 < s->w0 ? w0 : s->w0;
        s->w1 = w1 > s->w1 ? w1 : s->w1;
        k += c1 - c0;
    }
}

/* Where the first tap of a pixel is in the image. */
RP_LANE long conv_source(const struct conv_job *o, const struct conv_pixel *p)
{
    return ((p->n * o->image_h + p->h * o->step + o->dh) * o->image_w + p->w * o->step + o->dw) * o->channels;
}

/* Whether all taps of a pixel are inside. */
RP_LANE int conv_is_inside(const struct conv_job *o, const struct conv_runs *s, const struct conv_pixel *p)
{
    const long h = p->h * o->step + o->dh, w = p->w * o->step + o->dw;
    return h + s->h0 >= 0 && h + s->h1 < o->image_h && w + s->w0 >= 0 && w + s->w1 < o->image_w;
}

/* `rows` pixels from p on, which are in one row of the grid, or in one column of a grid that has one. */
RP_LANE int conv_are_inside(const struct conv_job *o, const struct conv_region *g, const struct conv_runs *s,
                            const struct conv_pixel *p, long rows)
{
    const struct conv_pixel last = conv_pixel_after(g, p, rows - 1);
    return conv_is_inside(o, s, p) && conv_is_inside(o, s, &last);
}

/* Whether a tile can read the strip from pixel p on in place; if so, where. */
static int conv_find_rows(const struct conv_job *o, const struct conv_region *g, const struct conv_runs *s,
                          const struct conv_pixel *p, int rows, struct rp_tile *t)
{
    const int is_column = g->grid_w == 1;
    const long line = is_column ? g->grid_h : g->grid_w;
    const long left = is_column ? g->first_h + line - p->h : g->first_w + line - p->w;
    if (!s->count || rows < o->kernel->mr || !conv_are_inside(o, g, s, p, least_of(rows, left)))
        return 0;
    t->a = o->image + conv_source(o, p) + s->first;
    t->lda = o->step * o->channels * (is_column ? o->image_w : 1);
    t->jump_row = rows;
    t->runs = s->run;
    if (left < rows) {
        const struct conv_pixel next = conv_pixel_after(g, p, left);
        if (left % 2 || rows - left > line || !conv_are_inside(o, g, s, &next, rows - left))
            return 0;
        t->jump_row = (int)left;
        t->jump = conv_source(o, &next) - conv_source(o, p) - left * t->lda;
    }
    return 1;
}

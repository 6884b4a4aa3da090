/* Convolution, forward and data gradient: the plan of a call, and tasks, which are some rows x some panels; see
 * conv_job.inc.h. Compiled once per instruction set by ops_<isa>.c. */

/* The end of the chain of which step k is part. A gradient counts absent taps. */
static long conv_chain_end(const struct conv_job *o, long k)
{
    if (!o->segment)
        return o->k;
    if (!o->is_gradient)
        return least_of(o->k, (k / o->segment + 1) * o->segment);
    const long channels = o->channels, counted = conv_tap(o, k / channels) * channels + k % channels;
    const long end = (counted / o->segment + 1) * o->segment;
    for (long run = k / channels; run < o->runs; run++) {
        const long first = conv_tap(o, run) * channels;
        if (first >= end)
            return run * channels;
        if (first + channels > end)
            return run * channels + (end - first);
    }
    return o->k;
}

/* k-steps of a row of taps. */
static long conv_tap_row(const struct conv_job *o)
{
    return o->runs_w * o->pixels * o->channels;
}

/* The first step from k on whose tap is inside the image for the pixels of the region; o->k: none. */
static long conv_wanted(const struct conv_job *o, const struct conv_region *g, long k)
{
    const long row = conv_tap_row(o), h = k / row, from = g->w0 * o->channels, to = g->w1 * o->channels;
    if (h < g->h0)
        return g->h0 * row + from;
    if (h >= g->h1)
        return o->k;
    if (k % row < from)
        return h * row + from;
    if (k % row < to)
        return k;
    return h + 1 < g->h1 ? (h + 1) * row + from : o->k;
}

/* The end of the wanted steps that follow k without a gap. */
static long conv_gap(const struct conv_job *o, const struct conv_region *g, long k)
{
    const long row = conv_tap_row(o);
    return g->w1 * o->channels - g->w0 * o->channels == row ? g->h1 * row : k / row * row + g->w1 * o->channels;
}

/* Equal blocks rather than a short last one, within a chain. */
static long conv_block_end(const struct conv_job *o, const struct conv_region *g, long k)
{
    const long left = least_of(conv_chain_end(o, k), conv_gap(o, g, k)) - k, n = blocks_of(left, CONV_KC);
    return n == 1 ? k + left : k + (long)conv_up((size_t)blocks_of(left, n), 16);
}

struct conv_worker {
    const struct conv_job *job;
    const struct conv_region *region;
    float *strip, *chain, *sum;
    long i0, i1;           /* rows of the task */
    struct conv_pixel p;   /* the first one of the strip */
    long mr;               /* most pixels of a strip */
    long first_col;        /* of the task */
    long panel, end_panel; /* panels that strips pass, and their columns */
    long col, cols;
    long k0, k1;           /* the block */
    long last_h;           /* of its rows of taps the lowest in the image, from the first one of all */
    struct conv_runs runs; /* of the block */
    int begins, ends;      /* it is the first, the last wanted one of its chain */
    int follows, last;     /* the chain is not the first, the block is the last of all */
};

/* Where a pixel of the grid is in C. */
RP_LANE long conv_place(const struct conv_job *o, const struct conv_pixel *p)
{
    return (p->n * o->out_h + p->h * o->out_step + o->out_h0) * o->out_w + p->w * o->out_step + o->out_w0;
}

/* The first place of a strip whose pixels lie side by side in C, or -1. */
static long conv_side_by_side(const struct conv_worker *w, int rows)
{
    const struct conv_pixel end = conv_pixel_after(w->region, &w->p, rows - 1);
    const long at = conv_place(w->job, &w->p);
    return conv_place(w->job, &end) - at == rows - 1 ? at : -1;
}

/* The pixels of a strip from the plane to their places. */
static void conv_scatter(const struct conv_worker *w, int rows, const float *from)
{
    const struct conv_job *o = w->job;
    struct conv_pixel p = w->p;
    for (int r = 0; r < rows; r++, from += CONV_COLS, conv_advance(w->region, &p, 1)) {
        const long at = conv_place(o, &p) * o->n + w->col;
        if (!o->add)
            conv_copy(o->out + at, from, w->cols);
        else
            EACH_VECTOR(w->cols, { vput(o->out + at + j, vget(from + j, n) + vget(o->add + at + j, n), n); });
    }
}

/* Pixels of the image that the strip after this one is the first to gather: those of its last row of taps, as lines
 * that follow each other. Its other rows were gathered for pixels above it. */
struct conv_lines {
    const char *at;
    long count;
};

static struct conv_lines conv_new_lines(const struct conv_worker *w, long i)
{
    const struct conv_job *o = w->job;
    const long mr = w->mr, next = i + mr;
    if (o->is_plain || next >= w->i1)
        return (struct conv_lines){NULL, 0};
    const struct conv_pixel p = conv_pixel_after(w->region, &w->p, mr);
    const long h = conv_clamp(p.h * o->step + o->dh + w->last_h, 0, o->image_h - 1);
    const long c = conv_clamp(p.w * o->step + o->dw + o->pixels - 1, 0, o->image_w - 1);
    const float *at = o->image + ((p.n * o->image_h + h) * o->image_w + c) * o->channels;
    return (struct conv_lines){(const char *)at,
                               least_of(mr, w->i1 - next) * o->step * o->channels * (long)sizeof *at / 64};
}

/* Rows of C and of A from this many elements on are lines that the processor does not fetch early enough by itself. */
#define CONV_WIDE 128
#define CONV_DEEP 128

/* The tile after this one, and source lines of the strip after this one: in place, tile q fetches rows q and q + panels
 * of it, and where panels are few also the rows 2 * panels after those; of what is gathered, as many new lines as there
 * are hints, one tile after another. */
static void conv_aim(const struct conv_worker *w, struct rp_tile *t, long i, long panel, const struct conv_lines *lines)
{
    const struct conv_job *o = w->job;
    const long mr = w->mr, panels = w->end_panel - w->panel, row = panel - w->panel, hints = t->k / 16;
    const int follows = i + 2 * mr <= w->i1;
    t->next_c = panel + 1 < w->end_panel ? t->c + conv_columns(&o->panels, panel)
                : follows                ? t->c + mr * t->ldc - (conv_column(&o->panels, panel) - w->col)
                                         : NULL;
    t->is_short = o->n >= CONV_WIDE;
    t->far = 0;
    if (o->is_plain && follows && t->k >= CONV_DEEP && 2 * panels < mr)
        t->far = 2 * panels * t->lda * (long)sizeof(float);
    for (int s = 0; s < 2; s++) {
        const int fetches = o->is_plain && follows && row + s * panels < mr;
        t->ahead[s].at = (const char *)(fetches ? t->a + (mr + row + s * panels) * t->lda : t->a);
        t->ahead[s].step = fetches ? 64 : 0;
        if ((2 * row + s) * hints < lines->count) {
            t->ahead[s].at = lines->at + (2 * row + s) * hints * 64;
            t->ahead[s].step = 64;
        }
    }
}

/* One strip past all panels of the chunk. */
static void conv_strip(const struct conv_worker *w, long i, int rows)
{
    const struct conv_job *o = w->job;
    const long at = w->last ? conv_side_by_side(w, rows) : -1;
    const int to_out = at >= 0;
    const long plane = (i - w->i0) * CONV_COLS + w->col - w->first_col;
    float *chain = w->chain + plane, *sum = w->sum + plane;
    float *to = to_out ? o->out + at * o->n + w->col : w->ends && !w->last ? sum : chain;
    struct rp_tile t = {.a = o->image + i * o->k + w->k0, .lda = o->k, .k = w->k1 - w->k0, .last = w->last,
                        .ldc = to_out ? o->n : CONV_COLS, .ldfrom = CONV_COLS, .ldsum = CONV_COLS, .ldadd = o->n};
    rp_tile_fn compute = o->kernel->in_place;
    if (conv_find_rows(o, w->region, &w->runs, &w->p, rows, &t)) {
        compute = o->kernel->in_runs;
    } else if (!o->is_plain) {
        t.a = w->strip;
        t.lda = CONV_STRIP_LD;
        conv_gather(o, w->region, w->strip, w->p, rows, w->k0, w->k1);
    }
    const struct conv_lines lines = conv_new_lines(w, i);
    for (long panel = w->panel; panel < w->end_panel; panel++) {
        const long col = conv_column(&o->panels, panel) - w->col;
        t.cols = (int)conv_columns(&o->panels, panel);
        t.b = o->packed + (panel * o->k + w->k0) * o->kernel->nr;
        t.c = to + col;
        t.from = w->begins ? NULL : chain + col;
        t.sum = w->ends && w->follows ? sum + col : NULL;
        t.add = to_out && o->add ? o->add + at * o->n + w->col + col : NULL;
        conv_aim(w, &t, i, panel, &lines);
        compute(&t, rows);
    }
    if (w->last && !to_out)
        conv_scatter(w, rows, chain);
}

/* Pixels that no output pixel takes: +0, and the addend. */
static void conv_absent(struct conv_worker *w)
{
    memset(w->chain, 0, CONV_COLS * sizeof *w->chain);
    w->p = conv_pixel_at(w->region, w->i0);
    for (long i = w->i0; i < w->i1; i++, conv_advance(w->region, &w->p, 1))
        conv_scatter(w, 1, w->chain);
}

/* All strips of the task, of mr pixels, past some panels. */
static void conv_strips(struct conv_worker *w, long panel, long end_panel, long mr)
{
    const struct conv_job *o = w->job;
    const struct conv_panels *all = &o->panels;
    w->mr = mr;
    w->panel = panel;
    w->end_panel = end_panel;
    w->col = conv_column(all, panel);
    w->cols = conv_column(all, end_panel) - w->col;
    w->p = conv_pixel_at(w->region, w->i0);
    conv_find_runs(o, &w->runs, end_panel - panel, w->k0, w->k1);
    for (long i = w->i0, rows; i < w->i1; i += rows, conv_advance(w->region, &w->p, rows)) {
        rows = w->i1 - i >= mr ? mr : least_of(o->kernel->mr, w->i1 - i);
        conv_strip(w, i, (int)rows);
    }
}

#define CONV_WAITS 8 /* with at most this many accumulators a tile waits for its own results */

/* The panels at the end that have two vectors, for taller tiles: not in short chains, and not where strips would be
 * gathered twice. Tiles that do not wait gain little, less than another pass over the pixels costs. */
static long conv_first_tall(const struct conv_worker *w, long panel, long end_panel)
{
    const struct conv_job *o = w->job;
    const struct rp_gemm_kernel *kernel = o->kernel;
    struct conv_runs runs;
    long first = end_panel;
    if (kernel->tall == kernel->mr || w->k1 - w->k0 < CONV_DEEP)
        return end_panel;
    for (; first > panel; first--) {
        const long columns = conv_columns(&o->panels, first - 1);
        if (columns <= kernel->lanes || columns > 2 * kernel->lanes)
            break;
    }
    conv_find_runs(o, &runs, end_panel - first, w->k0, w->k1);
    const int is_cheap = 2 * kernel->mr <= CONV_WAITS ? o->is_plain || runs.count : first == panel && runs.count;
    return is_cheap && 4 * (end_panel - first) >= end_panel - panel ? first : end_panel;
}

static void conv_part(void *arg, int part, int thread)
{
    const struct conv_job *o = arg;
    const struct conv_region *g = o->region;
    while (part >= g->parts)
        g++;
    part -= g > o->region ? g[-1].parts : 0;
    const long chunk = part % o->chunks, panel = chunk * o->panels.count / o->chunks,
               end_panel = (chunk + 1) * o->panels.count / o->chunks;
    struct conv_worker w = {.job = o, .region = g, .begins = 1};
    w.strip = (float *)((char *)rp_cpu_scratch(o->cpu, 0) + (size_t)thread * rp_cpu_conv_private());
    w.chain = w.strip + CONV_STRIP_FLOATS;
    w.sum = w.chain + CONV_PLANE_FLOATS;
    w.i0 = part / o->chunks * o->part_rows;
    w.i1 = least_of(g->rows, w.i0 + o->part_rows);
    w.first_col = w.col = conv_column(&o->panels, panel);
    w.cols = conv_column(&o->panels, end_panel) - w.col;
    if (!o->k)
        conv_absent(&w);
    for (long next, k = o->k ? conv_wanted(o, g, 0) : 0; k < o->k; k = next) {
        w.k0 = k;
        w.k1 = conv_block_end(o, g, k);
        next = conv_wanted(o, g, w.k1);
        w.ends = next >= conv_chain_end(o, k);
        w.last = next >= o->k;
        w.last_h = (o->dh_run < 0 ? w.k0 : w.k1 - 1) / (o->pixels * o->channels) / o->runs_w * o->dh_run;
        const long first_tall = conv_first_tall(&w, panel, end_panel);
        if (panel < first_tall)
            conv_strips(&w, panel, first_tall, o->kernel->mr);
        if (first_tall < end_panel)
            conv_strips(&w, first_tall, end_panel, o->kernel->tall);
        w.begins = w.ends;
        w.follows |= w.ends;
    }
    for (long i = w.i0; o->sums && o->regions == 1 && i < w.i1; i += RP_COLSUM_ROWS)
        colsum_block(o->sums + i / RP_COLSUM_ROWS * o->n + w.first_col, o->out + i * o->n + w.first_col, o->n,
                     least_of(RP_COLSUM_ROWS, w.i1 - i), conv_column(&o->panels, end_panel) - w.first_col);
}

/* Regions are worthwhile below this share of all products: they write some pixels one by one, and column sums are
 * another pass over what they write. */
#define CONV_WORTHWHILE(o) ((o)->sums ? 0.95 : 0.98)

static void conv_divide(struct conv_job *o)
{
    const struct conv_axis h = {o->grid_h, o->step, o->dh, o->dh_run, o->k ? o->runs / o->runs_w : 0, o->image_h};
    const struct conv_axis w = {o->grid_w, o->step, o->dw, o->pixels > 1 ? 1 : o->dw_run, o->runs_w * o->pixels,
                                o->image_w};
    o->whole = conv_whole(&h, &w, o->rows);
    o->region[0] = o->whole;
    o->regions =
        conv_regions_of(o->region, &h, &w, o->rows / (o->grid_h * o->grid_w), o->kernel->mr, CONV_WORTHWHILE(o));
}

/* 64-row sums of what regions have written. */
static void conv_sums_part(void *arg, int part, int thread)
{
    const struct conv_job *o = arg;
    const long i = (long)part * RP_COLSUM_ROWS;
    (void)thread;
    colsum_block(o->sums + part * o->n, o->out + i * o->n, o->n, least_of(RP_COLSUM_ROWS, o->rows - i), o->n);
}

/* Chunks of about equal width; rows in parts of whole blocks of a column sum, small enough that there is work for every
 * thread. */
static void conv_run(struct conv_job *o)
{
    struct rp_cpu *cpu = o->cpu;
    const size_t own = (size_t)cpu->threads * rp_cpu_conv_private();
    atomic_int is_spoiled = 0;
    int parts = 0;
    o->is_plain = o->runs == 1 && o->pixels == 1 && o->step == 1 && !o->dh && !o->dw && o->grid_h == o->image_h &&
                  o->grid_w == o->image_w;
    o->panels = conv_panels_of(o->kernel, o->n);
    o->chunks = blocks_of(o->panels.count, CONV_COLS / o->kernel->nr);
    o->packed = (float *)((char *)rp_cpu_scratch(cpu, 0) + own);
    RP_BUG_IF((size_t)cpu->threads * cpu->scratch_each <
              own + (size_t)(o->panels.count * o->k * o->kernel->nr) * sizeof(float));
    o->part_rows = CONV_ROWS;
    while (o->part_rows > RP_COLSUM_ROWS && o->chunks * blocks_of(o->rows, o->part_rows) < 4 * cpu->threads)
        o->part_rows -= RP_COLSUM_ROWS;
    conv_divide(o);
    o->is_spoiled = &is_spoiled;
    rp_pool_run(cpu->pool, blocks_of(o->k, CONV_PACK_STEPS), conv_pack_part, o);
    if (atomic_load(&is_spoiled)) { /* then 0 times a weight is not 0 */
        o->regions = 1;
        o->region[0] = o->whole;
    }
    for (int i = 0; i < o->regions; i++) {
        parts += (int)(o->chunks * blocks_of(o->region[i].rows, o->part_rows));
        o->region[i].parts = parts;
    }
    rp_pool_run(cpu->pool, parts, conv_part, o);
    if (o->sums && o->regions > 1)
        rp_pool_run(cpu->pool, blocks_of(o->rows, RP_COLSUM_ROWS), conv_sums_part, o);
}

static void cpu_conv_forward(struct rp_dev *dev, float *y, float *mean, const float *x, const float *w,
                             const struct rp_conv *c, float *work)
{
    struct rp_cpu *cpu = rp_cpu_of(dev);
    const long rows = rp_conv_rows(c), taps = rp_conv_taps(c);
    struct conv_job o = {.cpu = cpu, .kernel = cpu->gemm, .image = x, .image_h = c->in_h, .image_w = c->in_w,
                         .channels = c->in_c, .step = c->stride, .grid_h = c->out_h, .grid_w = c->out_w,
                         .rows = rows, .k = taps, .runs = c->kernel_h, .runs_w = 1, .pixels = c->kernel_w,
                         .dh = -c->pad_top, .dw = -c->pad_left, .dh_run = 1, .w = w, .n = c->out_c,
                         .segment = rp_segment((int)taps), .out = y, .out_h = c->out_h, .out_w = c->out_w,
                         .out_step = 1,
                         .sums = mean ? work : NULL};
    const int low = rp_is_mixed(dev->numerics);
    if (low)
        low_conv_forward(dev, y, x, w, c);
    else
        conv_run(&o);
    if (!mean)
        return;
    const vf inv = vset1(1.0f / (float)rows);
    if (low)
        cpu_colsum(dev, mean, y, (int)rows, c->out_c, work);
    else
        colsum_finish(cpu, 1, (float *const[3]){mean}, (float *const[3]){work}, rows, c->out_c);
    EACH_VECTOR((long)c->out_c, { vput(mean + j, vget(mean + j, n) * inv, n); });
}

/* The first tap that a class of pixels has, in one direction: its pixels i have i mod stride == class. */
static long conv_first_tap(long class, long pad, long stride)
{
    return (class + pad) % stride;
}

static long conv_pieces(long from, long to, long step) /* of from, from + step, ... below to */
{
    return from < to ? (to - from + step - 1) / step : 0;
}

static void cpu_conv_dgrad(struct rp_dev *dev, float *dx, const float *dy, const float *w, const float *add,
                           const struct rp_conv *c)
{
    struct rp_cpu *cpu = rp_cpu_of(dev);
    const long stride = c->stride, taps = (long)c->kernel_h * c->kernel_w;
    if (rp_is_mixed(dev->numerics)) {
        low_conv_dgrad(dev, dx, dy, w, add, c);
        return;
    }
    for (long class = 0; class < stride * stride; class++) {
        const long h0 = class / stride, w0 = class % stride, kh = conv_first_tap(h0, c->pad_top, stride),
                   kw = conv_first_tap(w0, c->pad_left, stride), runs_w = conv_pieces(kw, c->kernel_w, stride);
        struct conv_job o = {.cpu = cpu, .kernel = cpu->gemm, .image = dy, .image_h = c->out_h, .image_w = c->out_w,
                             .channels = c->out_c, .step = 1, .grid_h = conv_pieces(h0, c->in_h, stride),
                             .grid_w = conv_pieces(w0, c->in_w, stride),
                             .runs = conv_pieces(kh, c->kernel_h, stride) * runs_w, .runs_w = runs_w, .pixels = 1,
                             .dh = (h0 + c->pad_top - kh) / stride, .dw = (w0 + c->pad_left - kw) / stride,
                             .dh_run = -1, .dw_run = -1, .w = w, .n = c->in_c, .taps = taps, .in_c = c->in_c,
                             .segment = rp_segment((int)(taps * c->out_c)), .is_gradient = 1,
                             .tap = kh * c->kernel_w + kw, .tap_h = stride * c->kernel_w, .tap_w = stride,
                             .out = dx, .add = add, .out_h = c->in_h, .out_w = c->in_w, .out_step = stride,
                             .out_h0 = h0, .out_w0 = w0};
        o.rows = c->batch * o.grid_h * o.grid_w;
        o.k = o.runs * o.channels;
        if (o.rows)
            conv_run(&o);
    }
}

/* The weight gradient of a convolution as a GEMM over pixels, see struct rp_conv: dw[oc, (kh, kw, ic)] = chains over
 * rows of dy[row, oc] * x[row, (kh, kw, ic)]. Compiled once per instruction set by ops_<isa>.c.
 *
 *                 columns of x, gathered for a chain: panels of nr columns, [panel][row][nr]
 *                      +----+----+----+
 *   dy transposed      | p0 | p1 | p2 |   a chunk: stays in L2 while all output channels of the task pass by
 *   +--------+ strip   +----+----+----+
 *   | 64 oc  | ======> |tile|tile|tile|   a slab: 64 channels of the rows of a chain, as groups of 16: [group][row][16]
 *   +--------+         +----+----+----+
 *
 * The tiles of a slab pack the next slab between their k-steps, and, where x lies in memory as the columns do (1x1, no
 * stride), the columns of the next chain: a row of the slab, and one of the columns, per 16 k-steps (struct
 * rp_gemm_copy). A slab is four lines of a row because single lines of rows that are kilobytes apart come from memory
 * at half the speed.
 *
 * Where output pixels are input pixels of the same place and there are several taps, all taps share the columns: they
 * hold pixels of x with +0 around the images, of some channels, and a tap begins some pixels after the first one.
 * Rows of an image share their zeros, and so do images:
 *
 *      0 0 0 0           [pixel][nr]: tap (kh, kw) of output pixel (h, w) is pixel (h + kh, w + kw) of this picture,
 *      0 a b 0 c d 0     so that the k-steps of a tile are runs of a row of pixels, between which `pad_w` pixels
 *      0 0 0 0           are skipped (struct rp_gemm_run), and after an image as many rows
 *
 * A task is a group of RP_CONV_GROUP rows x a chunk of columns x a part of the output channels. The sums of groups are
 * in `work`; a balanced tree adds them. */

/* Scratch of a thread: columns, in two buffers if tiles pack those of the next chain; then two slabs of dy. */
#define WGRAD_HALF (RP_CONV_COLS / 2)                     /* columns of one of two buffers */
#define WGRAD_B_FLOATS ((size_t)RP_CONV_CHAIN * WGRAD_HALF)
#define WGRAD_GROUP ((RP_CONV_CHAIN + 4) * RP_GEMM_GROUP) /* floats of 16 channels; groups are not 4 KiB apart */
#define WGRAD_A_FLOATS ((size_t)RP_CONV_SLAB / RP_GEMM_GROUP * WGRAD_GROUP)
#define WGRAD_AHEAD 16                                    /* rows fetched ahead of those packed at once */

struct wgrad_job {
    struct rp_cpu *cpu;
    const struct rp_gemm_kernel *kernel;
    const struct rp_conv *c;
    const float *dy, *x;
    float *out;                     /* [group, out_c, taps] */
    struct conv_panels panels;
    int streams;                    /* x lies in memory as the columns do, in whole vectors: tiles pack it */
    long shifts;                    /* taps that share the columns, or 1; panels are then of channels */
    long pad_h, pad_w, pixels;      /* of such columns: zeros between images and rows, and pixels of a panel */
    long panel_rows;                /* of a panel in scratch: RP_CONV_CHAIN or `pixels` */
    long rows, taps, chunks, parts, part_rows; /* parts of the output channels */
};

/* Columns k0..k1 of run kh, `rows` rows from r0: x[n, oh*stride + kh - pad_top, ...] to dst, nr floats a row. */
static void wgrad_gather_run(const struct wgrad_job *o, float *dst, long r0, long rows, long kh, long k0, long k1)
{
    const struct rp_conv *c = o->c;
    const long nr = o->kernel->nr, width = (long)c->in_w * c->in_c;
    long n = r0 / (c->out_h * c->out_w), oh = r0 / c->out_w % c->out_h, ow = r0 % c->out_w;
    for (long r = 0; r < rows; r++, dst += nr) {
        const long h = oh * c->stride + kh - c->pad_top, first = (ow * c->stride - c->pad_left) * c->in_c;
        const float *row = o->x + (n * c->in_h + h) * width;
        if (h < 0 || h >= c->in_h) {
            conv_zero(dst, k1 - k0);
        } else if (first + k0 >= 0 && first + k1 <= width) {
            conv_copy(dst, row + first + k0, k1 - k0);
        } else {
            const long a = conv_clamp(-first, k0, k1), b = conv_clamp(width - first, a, k1);
            conv_zero(dst, a - k0);
            if (a < b)
                conv_copy(dst + (a - k0), row + first + a, b - a);
            conv_zero(dst + (b - k0), k1 - b);
        }
        if (++ow == c->out_w) {
            ow = 0;
            if (++oh == c->out_h) {
                oh = 0;
                n++;
            }
        }
    }
}

/* The columns of some panels, `rows` rows. */
static void wgrad_gather(const struct wgrad_job *o, float *dst, long r0, long rows, long panel, long end_panel)
{
    const long nr = o->kernel->nr, length = (long)o->c->kernel_w * o->c->in_c;
    for (; panel < end_panel; panel++, dst += RP_CONV_CHAIN * nr) {
        const long col = conv_column(&o->panels, panel), cols = conv_columns(&o->panels, panel);
        for (long k = col; k < col + cols;) {
            const long kh = k / length, to = least_of(col + cols, (kh + 1) * length);
            wgrad_gather_run(o, dst + (k - col), r0, rows, kh, k - kh * length, to - kh * length);
            k = to;
        }
        for (long r = 0; cols < nr && r < rows; r++)
            conv_zero(dst + r * nr + cols, nr - cols);
    }
}

/* Rows that the tiles pack meanwhile. */
struct wgrad_stream {
    const float *from, *after; /* the first row, and that of the rows that come after those; NULL: none */
    float *to;
    const int *at;             /* of each vector of a row, see struct rp_gemm_copy */
    long step, to_step, vectors;
    long rows, tiles, done;    /* all rows, all tiles, and tiles that are done */
    long first, end;           /* rows of the tile at hand */
};

/* Chains of 512 rows one after another, and within each of them slabs of channels. */
struct wgrad_slab {
    long r0, rows, channel, channels;
};

/* A task: a group of rows, columns, output channels. */
struct wgrad_task {
    const struct wgrad_job *job;
    float *a[2], *b[2], *out;
    long panel, end_panel, col, cols;
    long channel, end_channel;
    long first, end;                /* rows of the group */
    int a_flip, b_flip;             /* which of them is in use */
    int a_at[RP_CONV_SLAB], b_at[WGRAD_HALF];
    struct wgrad_stream stream[2];  /* dy of the next slab, columns of the next chain */
    struct rp_gemm_run run[RP_CONV_CHAIN]; /* of the chain, if taps share the columns */
    long slots;                     /* of a tile of the chain, see struct rp_gemm_copy */
    long tile, tiles;               /* of the chain */
};

/* rows == 0: there is none. */
static struct wgrad_slab wgrad_slab_after(const struct wgrad_task *w, struct wgrad_slab s)
{
    s.channel += RP_CONV_SLAB;
    if (s.channel >= w->end_channel) {
        s.channel = w->channel;
        s.r0 += RP_CONV_CHAIN;
    }
    s.rows = s.r0 < w->end ? least_of(RP_CONV_CHAIN, w->end - s.r0) : 0;
    s.channels = least_of(RP_CONV_SLAB, w->end_channel - s.channel);
    return s;
}

/* Rows from..to of a stream. */
static void wgrad_pack(const struct wgrad_job *o, const struct wgrad_stream *s, long from, long to)
{
    const long lanes = o->kernel->lanes;
    for (long r = from; r < to; r++) {
        const float *src = s->from + r * s->step;
        for (long v = 0; v < s->vectors; v++) {
            float *dst = s->to + r * s->to_step + s->at[v];
            __builtin_prefetch(src + WGRAD_AHEAD * s->step + v * lanes, 0, 2);
            for (long j = 0; j < lanes; j += W)
                vstore(dst + j, vload(src + v * lanes + j));
        }
    }
}

/* The rows of a stream that are due with this tile are first..end. Returns how many the tile packs, at most `most`. */
static long wgrad_give(struct wgrad_stream *s, struct rp_gemm_copy *c, long most)
{
    const long n = s->done++, tiles = s->tiles;
    s->first = n * s->rows / tiles;
    s->end = (n + 1) * s->rows / tiles;
    *c = (struct rp_gemm_copy){.from = s->from + s->first * s->step,
                               .ahead = n + 1 < tiles ? s->from + s->end * s->step : s->after,
                               .to = s->to + s->first * s->to_step, .at = s->at, .step = s->step, .to_step = s->to_step,
                               .vectors = (int)s->vectors, .pieces = (int)least_of(s->end - s->first, most)};
    return c->pieces;
}

/* dy of a slab: groups of 16 channels, [row][16]. */
static struct wgrad_stream wgrad_stream_of(const struct wgrad_task *w, const struct wgrad_slab *s, float *to)
{
    const struct wgrad_job *o = w->job;
    const struct wgrad_slab after = wgrad_slab_after(w, *s);
    const long ld = o->c->out_c;
    struct wgrad_stream x = {.from = o->dy + s->r0 * ld + s->channel, .to = to, .at = w->a_at, .step = ld,
                             .to_step = RP_GEMM_GROUP, .rows = s->rows};
    x.vectors = s->channels % RP_GEMM_GROUP ? 0 : s->channels / o->kernel->lanes;
    x.after = s->rows && after.rows ? o->dy + after.r0 * ld + after.channel : NULL;
    return x;
}

/* Rows of the chain from row r0 on. */
static long wgrad_chain_rows(const struct wgrad_task *w, long r0)
{
    return r0 < w->end ? least_of(RP_CONV_CHAIN, w->end - r0) : 0;
}

/* x of the chain from row r0 on, where it lies in memory as the columns do. */
static struct wgrad_stream wgrad_columns_of(const struct wgrad_task *w, long r0, float *to)
{
    const struct wgrad_job *o = w->job;
    const long ld = o->c->in_c;
    struct wgrad_stream x = {.from = o->x + r0 * ld + w->col, .to = to, .at = w->b_at, .step = ld,
                             .to_step = o->kernel->nr, .vectors = w->cols / o->kernel->lanes,
                             .rows = wgrad_chain_rows(w, r0)};
    if (wgrad_chain_rows(w, r0 + RP_CONV_CHAIN))
        x.after = x.from + RP_CONV_CHAIN * ld;
    return x;
}

/* The pixel among those of the columns, zeros included, that tap (kh, kw) of row r takes. */
static long wgrad_pixel(const struct wgrad_job *o, long r, long kh, long kw)
{
    const struct rp_conv *c = o->c;
    const long n = r / (c->out_h * c->out_w), h = r / c->out_w % c->out_h + kh - c->pad_top;
    const long w = r % c->out_w + kw - c->pad_left;
    return (n * (c->in_h + o->pad_h) + o->pad_h + h) * (c->in_w + o->pad_w) + o->pad_w + w;
}

static long wgrad_pixels(const struct wgrad_job *o, long r0, long rows)
{
    return wgrad_pixel(o, r0 + rows - 1, o->c->kernel_h - 1, o->c->kernel_w - 1) + 1 - wgrad_pixel(o, r0, 0, 0);
}

/* Columns that taps share, of the rows of the slab, and the runs of their tiles. */
static void wgrad_gather_pixels(struct wgrad_task *w, float *columns, const struct wgrad_slab *s)
{
    const struct wgrad_job *o = w->job;
    const struct rp_conv *c = o->c;
    const long first = wgrad_pixel(o, s->r0, 0, 0), end = first + wgrad_pixels(o, s->r0, s->rows), nr = o->kernel->nr;
    const long width = c->in_w + o->pad_w, height = c->in_h + o->pad_h, vectors = w->cols / o->kernel->lanes;
    for (long q = first, next; q < end; q = next) {
        const long row = q / width, h = row % height - o->pad_h, i = q % width - o->pad_w;
        float *to = columns + (q - first) * nr;
        next = least_of(end, (row + 1) * width - (h < 0 || i >= 0 ? 0 : c->in_w));
        if (h < 0 || i < 0) {
            for (; q < next; q++, to += nr)
                for (long v = 0; v < vectors; v++)
                    conv_zero(to + w->b_at[v], o->kernel->lanes);
            continue;
        }
        const float *from = o->x + ((row / height * c->in_h + h) * c->in_w + i) * c->in_c + w->col;
        const struct wgrad_stream x = {.from = from, .to = to, .at = w->b_at, .step = c->in_c, .to_step = nr,
                                       .vectors = vectors};
        wgrad_pack(o, &x, 0, next - q);
    }
}

/* Finds the runs of each row of output pixels, and counts the slots of all of them. */
static void wgrad_find_runs(struct wgrad_task *w, const struct wgrad_slab *s)
{
    const struct wgrad_job *o = w->job;
    const struct rp_conv *c = o->c;
    long n = 0;
    w->slots = 0;
    for (long r = s->r0, end = s->r0 + s->rows; r < end; r += w->run[n++].steps) {
        const long steps = least_of(end - r, c->out_w - r % c->out_w), rest = (r + steps) % (c->out_h * c->out_w);
        w->run[n].steps = steps;
        w->run[n].skip = (o->pad_w + (rest ? 0 : o->pad_h * (c->in_w + o->pad_w))) * o->kernel->nr;
        w->slots += blocks_of(steps, 16);
    }
}

/* The tile fetches lines of what the next chain gathers: the last tiles do, as late as they can. */
static void wgrad_fetch(struct wgrad_task *w, struct rp_tile *t, long r0)
{
    const struct wgrad_job *o = w->job;
    const long lines = blocks_of(w->cols * (long)sizeof(float), 64), rows = wgrad_chain_rows(w, r0), slots = w->slots;
    const long n = w->tile++ - (w->tiles - lines * blocks_of(rows, slots));
    if (n < 0 || !rows)
        return;
    t->ahead[0].at = (const char *)(o->x + (r0 + n / lines * slots) * o->c->in_c + w->col) + n % lines * 64;
    t->ahead[0].step = o->c->in_c * (long)sizeof(float);
}

/* dy of channels that do not fill a group. */
static void wgrad_pack_odd(const struct wgrad_job *o, float *dst, const struct wgrad_slab *s)
{
    const float *src = o->dy + s->r0 * o->c->out_c + s->channel;
    for (long r = 0; r < s->rows; r++, src += o->c->out_c, dst += RP_GEMM_GROUP)
        for (long i = 0; i < (long)conv_up((size_t)s->channels, RP_GEMM_GROUP); i++)
            dst[i / RP_GEMM_GROUP * WGRAD_GROUP + i % RP_GEMM_GROUP] = i < s->channels ? src[i] : 0.0f;
}

/* All tiles of a slab. */
static void wgrad_tiles(struct wgrad_task *w, const struct wgrad_slab *s)
{
    const struct wgrad_job *o = w->job;
    const long mr = o->kernel->mr, nr = o->kernel->nr, panels = w->end_panel - w->panel, tiles = panels * o->shifts;
    const int continues = s->r0 + s->rows < w->end;
    for (long i = 0; i < s->channels; i += mr)
        for (long n = 0; n < tiles; n++) {
            const long panel = w->panel + n / o->shifts, tap = n % o->shifts, soon = w->panel + (n + 1) / o->shifts;
            const long kh = tap / o->c->kernel_w, kw = tap % o->c->kernel_w;
            float *row = w->out + (s->channel + i) * o->taps;
            float *c = row + tap * o->c->in_c + conv_column(&o->panels, panel);
            const long pixel = kh * (o->c->in_w + o->pad_w) + kw;
            const int rows = (int)least_of(mr, s->channels - i);
            struct rp_tile t = {.a = w->a[w->a_flip] + i / RP_GEMM_GROUP * WGRAD_GROUP + i % RP_GEMM_GROUP,
                                .b = w->b[w->b_flip] + (n / o->shifts * o->panel_rows + pixel) * nr,
                                .runs = o->shifts > 1 ? w->run : NULL, .k = s->rows,
                                .cols = (int)conv_columns(&o->panels, panel), .last = !continues, .c = c,
                                .ldc = o->taps, .sum = s->r0 == w->first ? NULL : c, .ldsum = o->taps};
            const long most = o->kernel->copies && rows == mr ? w->slots : 0;
            long packed[2];
            t.ahead[0].at = t.ahead[1].at = (const char *)t.a;
            t.next_c = n + 1 < tiles ? row + (n + 1) % o->shifts * o->c->in_c + conv_column(&o->panels, soon)
                       : i + mr < s->channels ? row + mr * o->taps + w->col : NULL;
            if (o->shifts > 1)
                wgrad_fetch(w, &t, s->r0 + RP_CONV_CHAIN);
            for (int k = 0; k < 2; k++)
                packed[k] = wgrad_give(&w->stream[k], &t.copy[k], most);
            o->kernel->packed(&t, rows);
            for (int k = 0; k < 2; k++)
                wgrad_pack(o, &w->stream[k], w->stream[k].first + packed[k], w->stream[k].end);
        }
}

/* The buffers of a task, and where vectors of a row are in them. */
static void wgrad_layout(struct wgrad_task *w, float *scratch)
{
    const struct wgrad_job *o = w->job;
    const long lanes = o->kernel->lanes;
    w->b[0] = scratch;
    w->b[1] = w->b[0] + WGRAD_B_FLOATS;
    w->a[0] = w->b[1] + WGRAD_B_FLOATS;
    w->a[1] = w->a[0] + WGRAD_A_FLOATS;
    for (long v = 0; v < RP_CONV_SLAB / lanes; v++)
        w->a_at[v] = (int)(v * lanes / RP_GEMM_GROUP * WGRAD_GROUP + v * lanes % RP_GEMM_GROUP);
    for (long panel = w->panel, v = 0; (o->streams || o->shifts > 1) && panel < w->end_panel; panel++)
        for (long j = 0; j < conv_columns(&o->panels, panel); j += lanes)
            w->b_at[v++] = (int)((panel - w->panel) * o->panel_rows * o->kernel->nr + j);
}

/* The columns of the chain that begins with this slab; tiles will pack those of the next one, where they can. */
static void wgrad_next_chain(struct wgrad_task *w, const struct wgrad_slab *s)
{
    const struct wgrad_job *o = w->job;
    w->b_flip = o->streams && !w->b_flip;
    float *columns = w->b[w->b_flip];
    w->stream[1] = (struct wgrad_stream){.rows = 0};
    w->slots = blocks_of(s->rows, 16);
    w->tile = 0;
    w->tiles = blocks_of(w->end_channel - w->channel, o->kernel->mr) * (w->end_panel - w->panel) * o->shifts;
    if (o->streams) {
        const struct wgrad_stream all = wgrad_columns_of(w, s->r0, columns);
        if (s->r0 == w->first)
            wgrad_pack(o, &all, 0, all.rows);
        if (wgrad_chain_rows(w, s->r0 + RP_CONV_CHAIN))
            w->stream[1] = wgrad_columns_of(w, s->r0 + RP_CONV_CHAIN, w->b[!w->b_flip]);
    } else if (o->shifts > 1) {
        wgrad_gather_pixels(w, columns, s);
        wgrad_find_runs(w, s);
    } else {
        wgrad_gather(o, columns, s->r0, s->rows, w->panel, w->end_panel);
    }
    w->stream[1].tiles = w->tiles;
}

static void wgrad_part(void *arg, int part, int thread)
{
    const struct wgrad_job *o = arg;
    const long chunk = part / o->parts % o->chunks, group = part / o->parts / o->chunks;
    struct wgrad_task w = {.job = o, .out = o->out + group * o->c->out_c * o->taps, .b_flip = o->streams};
    w.first = group * RP_CONV_GROUP;
    w.end = least_of(o->rows, w.first + RP_CONV_GROUP);
    w.panel = chunk * o->panels.count / o->chunks;
    w.end_panel = (chunk + 1) * o->panels.count / o->chunks;
    w.col = conv_column(&o->panels, w.panel);
    w.cols = conv_column(&o->panels, w.end_panel) - w.col;
    w.channel = part % o->parts * o->part_rows;
    w.end_channel = least_of(o->c->out_c, w.channel + o->part_rows);
    wgrad_layout(&w, rp_cpu_scratch(o->cpu, thread));
    struct wgrad_slab slab = {.r0 = w.first, .rows = least_of(RP_CONV_CHAIN, w.end - w.first), .channel = w.channel,
                              .channels = least_of(RP_CONV_SLAB, w.end_channel - w.channel)};
    w.stream[0] = wgrad_stream_of(&w, &slab, w.a[0]);
    wgrad_pack(o, &w.stream[0], 0, slab.rows);
    while (slab.rows) {
        const struct wgrad_slab next = wgrad_slab_after(&w, slab);
        if (slab.channel == w.channel)
            wgrad_next_chain(&w, &slab);
        if (slab.channels % RP_GEMM_GROUP)
            wgrad_pack_odd(o, w.a[w.a_flip], &slab);
        w.stream[0] = wgrad_stream_of(&w, &next, w.a[!w.a_flip]);
        w.stream[0].tiles = blocks_of(slab.channels, o->kernel->mr) * (w.end_panel - w.panel) * o->shifts;
        wgrad_tiles(&w, &slab);
        w.a_flip = !w.a_flip;
        slab = next;
    }
}

/* How the columns of x are packed. */
static void wgrad_plan(struct wgrad_job *o)
{
    const struct rp_conv *c = o->c;
    const long nr = o->kernel->nr, fits = 2 * (long)WGRAD_B_FLOATS / nr;
    const int same = c->stride == 1 && c->in_h == c->out_h && c->in_w == c->out_w;
    const int in_place = same && c->in_c % o->kernel->lanes == 0;
    long most = CONV_COLS / nr;
    o->streams = in_place && o->taps == c->in_c;
    o->shifts = in_place ? o->taps / c->in_c : 1;
    o->pad_h = c->pad_top > c->kernel_h - 1 - c->pad_top ? c->pad_top : c->kernel_h - 1 - c->pad_top;
    o->pad_w = c->pad_left > c->kernel_w - 1 - c->pad_left ? c->pad_left : c->kernel_w - 1 - c->pad_left;
    for (long r = 0; o->shifts > 1 && r < o->rows; r += RP_CONV_CHAIN) {
        const long n = wgrad_pixels(o, r, least_of(RP_CONV_CHAIN, o->rows - r));
        o->pixels = n > o->pixels ? n : o->pixels;
    }
    if (o->pixels > fits)
        o->shifts = 1;
    o->panel_rows = o->shifts > 1 ? o->pixels : RP_CONV_CHAIN;
    o->panels = conv_panels_of(o->kernel, o->shifts > 1 ? c->in_c : o->taps);
    if (o->streams)
        most = WGRAD_HALF / nr;
    else if (o->shifts > 1)
        most = least_of(CONV_COLS / nr, fits / o->pixels);
    o->chunks = blocks_of(o->panels.count, most);
}

static void cpu_conv_wgrad(struct rp_dev *dev, float *dw, const float *dy, const float *x, const struct rp_conv *c,
                           float *work)
{
    struct rp_cpu *cpu = rp_cpu_of(dev);
    struct wgrad_job o = {
        .cpu = cpu, .kernel = cpu->gemm, .c = c, .dy = dy, .x = x, .rows = rp_conv_rows(c), .taps = rp_conv_taps(c)};
    const long groups = blocks_of(o.rows, RP_CONV_GROUP);
    if (rp_is_mixed(dev->numerics)) {
        low_conv_wgrad(dev, dw, dy, x, c);
        return;
    }
    RP_BUG_IF(cpu->scratch_each < rp_cpu_conv_private());
    o.out = groups > 1 ? work : dw;
    wgrad_plan(&o);
    o.parts = 1;
    while (groups * o.chunks * o.parts < 4 * cpu->threads && o.parts * 64 < c->out_c)
        o.parts++;
    o.part_rows = (long)conv_up((size_t)blocks_of(c->out_c, o.parts), RP_CONV_SLAB);
    o.parts = blocks_of(c->out_c, o.part_rows);
    rp_pool_run(cpu->pool, (int)(groups * o.chunks * o.parts), wgrad_part, &o);
    if (groups > 1) {
        struct colsum_job tree = {.dst = {dw}, .work = {work}, .blocks = groups, .width = c->out_c * o.taps};
        rp_pool_run(cpu->pool, blocks_of(tree.width, 128), colsum_part, &tree);
    }
}

#undef CONV_KC
#undef CONV_COLS
#undef CONV_ROWS

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
 * The tiles of a slab pack the next slab between their k-steps, and, where x lies in memory as the columns do, the
 * columns of the next chain: a row of the slab, and one of the columns, per 16 k-steps (struct rp_gemm_copy). A slab is
 * four lines of a row because single lines of rows that are kilobytes apart come from memory at half the speed.
 *
 * x lies so if an output pixel is an input pixel at the same place: then tap (kh, kw) of row r is row
 * r + (kh - pad_top) * in_w + (kw - pad_left) of x, also where r is the first of the next row of pixels. Taps outside
 * the image get what happens to lie there, and are set to +0 before the columns are used (wgrad_clear).
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
    long run_panels, run_chunks;    /* of a row of taps, whose columns lie side by side, or if x is gathered of all */
    long rows, taps, chunks, parts, part_rows; /* parts of the output channels */
};

/* Columns k0..k1 of run kh, `rows` rows from r0: x[n, oh*stride + kh - pad_top, ...] to dst, nr floats from row to row. */
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

/* The row of taps of the columns of a task that streams, and the first of its columns among those of the row. */
static long wgrad_tap_row(const struct wgrad_task *w, long *first)
{
    const long length = (long)w->job->c->kernel_w * w->job->c->in_c;
    *first = w->col % length;
    return w->col / length;
}

/* Where the columns of row r begin in x, in floats: possibly before or after its elements. */
static long wgrad_column_at(const struct wgrad_task *w, long r)
{
    const struct rp_conv *c = w->job->c;
    long first;
    const long kh = wgrad_tap_row(w, &first);
    return (r + (kh - c->pad_top) * c->in_w - c->pad_left) * c->in_c + first;
}

/* Rows of the chain from row r0 on. */
static long wgrad_chain_rows(const struct wgrad_task *w, long r0)
{
    return r0 < w->end ? least_of(RP_CONV_CHAIN, w->end - r0) : 0;
}

/* Whether the chain from row r0 on can be packed as x lies in memory: all that is read is inside. */
static int wgrad_can_stream(const struct wgrad_task *w, long r0)
{
    const struct wgrad_job *o = w->job;
    const long rows = wgrad_chain_rows(w, r0);
    return o->streams && rows && wgrad_column_at(w, r0) >= 0 &&
           wgrad_column_at(w, r0 + rows - 1) + w->cols <= o->rows * o->c->in_c;
}

/* x of the chain from row r0 on. */
static struct wgrad_stream wgrad_columns_of(const struct wgrad_task *w, long r0, float *to)
{
    const struct wgrad_job *o = w->job;
    struct wgrad_stream x = {.from = o->x + wgrad_column_at(w, r0), .to = to, .at = w->b_at, .step = o->c->in_c,
                             .to_step = o->kernel->nr, .vectors = w->cols / o->kernel->lanes,
                             .rows = wgrad_chain_rows(w, r0)};
    if (wgrad_can_stream(w, r0 + RP_CONV_CHAIN))
        x.after = o->x + wgrad_column_at(w, r0 + RP_CONV_CHAIN);
    return x;
}

/* Columns a..b of row r, counted from the first of the task, become +0. */
static void wgrad_clear_columns(const struct wgrad_task *w, float *columns, long r, long a, long b)
{
    const long nr = w->job->kernel->nr;
    for (long j = a > 0 ? a : 0; j < b && j < w->cols;) {
        const long end = least_of(least_of(b, w->cols), (j / nr + 1) * nr);
        conv_zero(columns + (j / nr * RP_CONV_CHAIN + r) * nr + j % nr, end - j);
        j = end;
    }
}

/* Taps outside the image, of a chain that was packed as x lies in memory. */
static void wgrad_clear(const struct wgrad_task *w, float *columns, const struct wgrad_slab *s)
{
    const struct rp_conv *c = w->job->c;
    long first, oh = s->r0 / c->out_w % c->out_h, ow = s->r0 % c->out_w;
    const long kh = wgrad_tap_row(w, &first);
    for (long r = 0; r < s->rows; r++) {
        const long h = oh + kh - c->pad_top, left = c->pad_left - ow, right = c->in_w + left;
        if (h < 0 || h >= c->in_h)
            wgrad_clear_columns(w, columns, r, 0, w->cols);
        else if (left > 0)
            wgrad_clear_columns(w, columns, r, -first, left * c->in_c - first);
        if (right < c->kernel_w)
            wgrad_clear_columns(w, columns, r, right * c->in_c - first, c->kernel_w * c->in_c - first);
        if (++ow == c->out_w) {
            ow = 0;
            oh = oh + 1 == c->out_h ? 0 : oh + 1;
        }
    }
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
    const long mr = o->kernel->mr;
    const int continues = s->r0 + s->rows < w->end;
    for (long i = 0; i < s->channels; i += mr)
        for (long panel = w->panel; panel < w->end_panel; panel++) {
            float *row = w->out + (s->channel + i) * o->taps, *c = row + conv_column(&o->panels, panel);
            const int rows = (int)least_of(mr, s->channels - i);
            struct rp_tile t = {.a = w->a[w->a_flip] + i / RP_GEMM_GROUP * WGRAD_GROUP + i % RP_GEMM_GROUP,
                                .b = w->b[w->b_flip] + (panel - w->panel) * RP_CONV_CHAIN * o->kernel->nr, .k = s->rows,
                                .cols = (int)conv_columns(&o->panels, panel), .last = !continues, .c = c, .ldc = o->taps,
                                .sum = s->r0 == w->first ? NULL : c, .ldsum = o->taps};
            const long most = o->kernel->copies && rows == mr ? s->rows / 16 : 0;
            long packed[2];
            t.ahead[0].at = t.ahead[1].at = (const char *)t.a;
            t.next_c = panel + 1 < w->end_panel ? c + t.cols : i + mr < s->channels ? row + mr * o->taps + w->col : NULL;
            for (int n = 0; n < 2; n++)
                packed[n] = wgrad_give(&w->stream[n], &t.copy[n], most);
            o->kernel->packed(&t, rows);
            for (int n = 0; n < 2; n++)
                wgrad_pack(o, &w->stream[n], w->stream[n].first + packed[n], w->stream[n].end);
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
    for (long panel = w->panel, v = 0; o->streams && panel < w->end_panel; panel++)
        for (long j = 0; j < conv_columns(&o->panels, panel); j += lanes)
            w->b_at[v++] = (int)((panel - w->panel) * RP_CONV_CHAIN * o->kernel->nr + j);
}

/* The columns of the chain that begins with this slab; tiles will pack those of the next one, where they can. */
static void wgrad_next_chain(struct wgrad_task *w, const struct wgrad_slab *s)
{
    const struct wgrad_job *o = w->job;
    w->b_flip = o->streams && !w->b_flip;
    float *columns = w->b[w->b_flip];
    w->stream[1] = (struct wgrad_stream){.rows = 0};
    if (wgrad_can_stream(w, s->r0)) {
        const struct wgrad_stream all = wgrad_columns_of(w, s->r0, columns);
        if (s->r0 == w->first)
            wgrad_pack(o, &all, 0, all.rows);
        if (o->taps > o->c->in_c)
            wgrad_clear(w, columns, s);
    } else {
        wgrad_gather(o, columns, s->r0, s->rows, w->panel, w->end_panel);
    }
    if (wgrad_can_stream(w, s->r0 + RP_CONV_CHAIN))
        w->stream[1] = wgrad_columns_of(w, s->r0 + RP_CONV_CHAIN, w->b[!w->b_flip]);
    w->stream[1].tiles = blocks_of(w->end_channel - w->channel, o->kernel->mr) * (w->end_panel - w->panel);
}

static void wgrad_part(void *arg, int part, int thread)
{
    const struct wgrad_job *o = arg;
    const long chunk = part / o->parts % o->chunks, group = part / o->parts / o->chunks;
    const long run = chunk / o->run_chunks, i = chunk % o->run_chunks;
    struct wgrad_task w = {.job = o, .out = o->out + group * o->c->out_c * o->taps, .b_flip = o->streams};
    w.first = group * RP_CONV_GROUP;
    w.end = least_of(o->rows, w.first + RP_CONV_GROUP);
    w.panel = run * o->run_panels + i * o->run_panels / o->run_chunks;
    w.end_panel = run * o->run_panels + (i + 1) * o->run_panels / o->run_chunks;
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
        w.stream[0].tiles = blocks_of(slab.channels, o->kernel->mr) * (w.end_panel - w.panel);
        wgrad_tiles(&w, &slab);
        w.a_flip = !w.a_flip;
        slab = next;
    }
}

static void cpu_conv_wgrad(struct rp_dev *dev, float *dw, const float *dy, const float *x, const struct rp_conv *c, float *work)
{
    struct rp_cpu *cpu = rp_cpu_of(dev);
    struct wgrad_job o = {.cpu = cpu, .kernel = cpu->gemm, .c = c, .dy = dy, .x = x, .rows = rp_conv_rows(c), .taps = rp_conv_taps(c)};
    const long groups = blocks_of(o.rows, RP_CONV_GROUP);
    if (rp_is_mixed(dev->numerics)) {
        low_conv_wgrad(dev, dw, dy, x, c);
        return;
    }
    RP_BUG_IF(cpu->scratch_each < rp_cpu_conv_private());
    o.out = groups > 1 ? work : dw;
    o.panels = conv_panels_of(o.kernel, o.taps);
    o.streams = c->stride == 1 && c->in_h == c->out_h && c->in_w == c->out_w && c->in_c % o.kernel->lanes == 0 &&
                (o.taps == c->in_c || c->kernel_w * c->in_c % o.kernel->nr == 0); /* no narrow panels */
    o.run_panels = o.panels.count / (o.streams ? c->kernel_h : 1);
    o.run_chunks = blocks_of(o.run_panels, (o.streams ? WGRAD_HALF : CONV_COLS) / o.kernel->nr);
    o.chunks = o.panels.count / o.run_panels * o.run_chunks;
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

/* The weight gradient of a convolution as a GEMM over pixels, see struct rp_conv: dw[oc, (kh, kw, ic)] = chains over rows of dy[row, oc] *
 * x[row, (kh, kw, ic)]. Compiled once per instruction set by ops_<isa>.c.
 *
 *                 columns of x, gathered for a chain: panels of nr columns, [panel][row][nr]
 *                      +----+----+----+
 *   dy transposed      | p0 | p1 | p2 |   a chunk: stays in L2 while all output channels of the task pass by
 *   +--------+ strip   +----+----+----+
 *   | 16 oc  | ======> |tile|tile|tile|   a slab: 16 channels of the rows of a chain, [row][16]; packed by the tiles of the slab before
 *   +--------+         +----+----+----+
 *
 * A task is a group of RP_CONV_GROUP rows x a chunk of columns x a part of the output channels. The sums of groups are in `work`; a
 * balanced tree adds them. */

/* Scratch of a thread: the gathered columns of a chain, then a group of dy transposed, twice. */
#define CONV_B_FLOATS ((size_t)RP_CONV_CHAIN * CONV_COLS)
#define CONV_A_FLOATS ((size_t)(RP_CONV_CHAIN + 16) * RP_GEMM_GROUP)

struct wgrad_job {
    struct rp_cpu *cpu;
    const struct rp_gemm_kernel *kernel;
    const struct rp_conv *c;
    const float *dy, *x;
    float *out;                     /* [group, out_c, taps] */
    struct conv_panels panels;
    int is_plain;                   /* x is the matrix of columns as it lies in memory */
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
    for (; panel < end_panel; panel++, dst += rows * nr) {
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

/* A task: a group of rows, columns, output channels. */
struct wgrad_task {
    const struct wgrad_job *job;
    float *a[2], *b, *out;
    long panel, end_panel, col, cols;
    long channel, end_channel;
    long first, end;                /* rows of the group */
    int flip;                       /* which a is in use */
    long tiles, fetched;            /* of a chain: all, and those that fetched their share of the next chain's x */
};

/* 16 channels of the rows of a chain. */
struct wgrad_slab {
    long r0, rows, channel, channels;
};

/* rows == 0: there is none. */
static struct wgrad_slab wgrad_slab_after(const struct wgrad_task *w, struct wgrad_slab s)
{
    s.channel += RP_GEMM_GROUP;
    if (s.channel >= w->end_channel) {
        s.channel = w->channel;
        s.r0 += RP_CONV_CHAIN;
    }
    s.rows = s.r0 < w->end ? least_of(RP_CONV_CHAIN, w->end - s.r0) : 0;
    s.channels = least_of(RP_GEMM_GROUP, w->end_channel - s.channel);
    return s;
}

static const float *wgrad_source(const struct wgrad_job *o, const struct wgrad_slab *s, long row)
{
    return o->dy + (s->r0 + row) * o->c->out_c + s->channel;
}

/* Rows from..to of a slab of dy transposed: 16 channels side by side. */
static void wgrad_pack(const struct wgrad_job *o, float *dst, const struct wgrad_slab *s, long from, long to)
{
    const float *src = wgrad_source(o, s, from);
    dst += from * RP_GEMM_GROUP;
    if (s->channels == RP_GEMM_GROUP) {
        o->kernel->copy_group(dst, src, o->c->out_c, (int)(to - from));
        return;
    }
    for (long r = from; r < to; r++, src += o->c->out_c, dst += RP_GEMM_GROUP)
        for (long i = 0; i < RP_GEMM_GROUP; i++)
            dst[i] = i < s->channels ? src[i] : 0.0f;
}

/* One more share of the rows that the next chain gathers, if they lie side by side. */
static void wgrad_fetch(struct wgrad_task *w, const struct wgrad_slab *s)
{
    const struct wgrad_job *o = w->job;
    const long r0 = s->r0 + RP_CONV_CHAIN, rows = least_of(RP_CONV_CHAIN, w->end - r0), n = w->fetched++;
    for (long r = n * rows / w->tiles; r < (n + 1) * rows / w->tiles; r++)
        for (long col = 0; col < w->cols; col += 16)
            __builtin_prefetch(o->x + (r0 + r) * o->taps + w->col + col, 0, 2);
}

/* Lines of the next slab for this tile to pack, done..end, and for it to fetch, those after them. Returns how many it will have packed. */
static long wgrad_aim(const struct wgrad_task *w, struct rp_tile *t, int rows, const struct wgrad_slab *next, long done, long end)
{
    const struct wgrad_job *o = w->job;
    const long ld = o->c->out_c, each = end - done;
    for (int s = 0; s < 2; s++) {
        const int fetches = end + each <= next->rows;
        /* the last float: if 16 of them lie across two lines, the first line came with the slab before */
        t->ahead[s].at = (const char *)(fetches ? wgrad_source(o, next, end + s) + RP_GEMM_GROUP - 1 : t->a);
        t->ahead[s].step = fetches ? 2 * ld * (long)sizeof(float) : 0;
    }
    if (!o->kernel->copies || next->channels < RP_GEMM_GROUP || rows < o->kernel->mr)
        return 0;
    t->copy = (struct rp_gemm_copy){.from = wgrad_source(o, next, done), .to = w->a[!w->flip] + done * RP_GEMM_GROUP, .step = ld,
                                    .lines = (int)least_of(each, t->k / 16)};
    return t->copy.lines;
}

/* All tiles of a slab. They pack the next slab: each copies some lines between its k-steps, and fetches those of the tile after it. */
static void wgrad_tiles(struct wgrad_task *w, const struct wgrad_slab *s, const struct wgrad_slab *next)
{
    const struct wgrad_job *o = w->job;
    const long mr = o->kernel->mr, each = blocks_of(next->rows, blocks_of(s->channels, mr) * (w->end_panel - w->panel));
    const int continues = s->r0 + s->rows < w->end;
    long done = 0;
    for (long i = 0; i < s->channels; i += mr)
        for (long panel = w->panel; panel < w->end_panel; panel++) {
            float *row = w->out + (s->channel + i) * o->taps, *c = row + conv_column(&o->panels, panel);
            const long end = least_of(next->rows, done + each);
            const int rows = (int)least_of(mr, s->channels - i);
            struct rp_tile t = {.a = w->a[w->flip] + i, .b = w->b + (panel - w->panel) * s->rows * o->kernel->nr, .k = s->rows,
                                .cols = (int)conv_columns(&o->panels, panel), .last = !continues, .c = c, .ldc = o->taps,
                                .sum = s->r0 == w->first ? NULL : c, .ldsum = o->taps};
            t.next_c = panel + 1 < w->end_panel ? c + t.cols : i + mr < s->channels ? row + mr * o->taps + w->col : NULL;
            done += wgrad_aim(w, &t, rows, next, done, end);
            o->kernel->packed(&t, rows);
            if (done < end)
                wgrad_pack(o, w->a[!w->flip], next, done, end);
            done = end;
            if (o->is_plain && continues)
                wgrad_fetch(w, s);
        }
    w->flip = !w->flip;
}

static void wgrad_part(void *arg, int part, int thread)
{
    const struct wgrad_job *o = arg;
    const long chunk = part / o->parts % o->chunks, group = part / o->parts / o->chunks;
    struct wgrad_task w = {.job = o, .b = rp_cpu_scratch(o->cpu, thread), .out = o->out + group * o->c->out_c * o->taps};
    w.a[0] = w.b + CONV_B_FLOATS;
    w.a[1] = w.a[0] + CONV_A_FLOATS;
    w.first = group * RP_CONV_GROUP;
    w.end = least_of(o->rows, w.first + RP_CONV_GROUP);
    w.panel = chunk * o->panels.count / o->chunks;
    w.end_panel = (chunk + 1) * o->panels.count / o->chunks;
    w.col = conv_column(&o->panels, w.panel);
    w.cols = conv_column(&o->panels, w.end_panel) - w.col;
    w.channel = part % o->parts * o->part_rows;
    w.end_channel = least_of(o->c->out_c, w.channel + o->part_rows);
    w.tiles = blocks_of(w.end_channel - w.channel, o->kernel->mr) * (w.end_panel - w.panel);
    struct wgrad_slab slab = {.r0 = w.first, .rows = least_of(RP_CONV_CHAIN, w.end - w.first), .channel = w.channel,
                              .channels = least_of(RP_GEMM_GROUP, w.end_channel - w.channel)};
    wgrad_pack(o, w.a[0], &slab, 0, slab.rows);
    while (slab.rows) {
        const struct wgrad_slab next = wgrad_slab_after(&w, slab);
        if (slab.channel == w.channel) {
            wgrad_gather(o, w.b, slab.r0, slab.rows, w.panel, w.end_panel);
            w.fetched = 0;
        }
        wgrad_tiles(&w, &slab, &next);
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
    o.is_plain = c->kernel_h == 1 && c->kernel_w == 1 && c->stride == 1;
    o.chunks = blocks_of(o.panels.count, CONV_COLS / o.kernel->nr);
    o.parts = 1;
    while (groups * o.chunks * o.parts < 4 * cpu->threads && o.parts * 64 < c->out_c)
        o.parts++;
    o.part_rows = (long)conv_up((size_t)blocks_of(c->out_c, o.parts), RP_GEMM_GROUP);
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

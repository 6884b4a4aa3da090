/* Attention by estimate: the launches of a forward and a backward pass, their cycles by the loops of the kernels, and
 * the table of both: a part of test_estimates.c, which includes it once. */

static const char *const attention_parts[] = {"attention", "attention_stream", "attention_backward",
                                              "attention_stream_backward"};
enum { PARTS = 4, KERNELS = 64 };

struct attention_loops {
    int arch, n;
    struct {
        char kernel[64];
        struct sass_loop loop;
    } row[KERNELS];
};

static void add_attention(void *user, const char *kernel, const unsigned char *code, size_t bytes)
{
    struct attention_loops *l = user;
    if (strcmp(kernel, "rp_attention_dots") == 0 || !CHECK(l->n < KERNELS))
        return;
    snprintf(l->row[l->n].kernel, sizeof l->row->kernel, "%s", kernel + 3);
    CHECK(sass_main_loop(&l->row[l->n].loop, code, bytes, l->arch), "%s for sm_%d: no main loop is found", kernel,
          l->arch);
    CHECK(!l->row[l->n].loop.local, "%s for sm_%d: local memory in the loop", kernel, l->arch);
    l->n++;
}

static const struct sass_loop *attention_loop(const struct attention_loops *l, const char *kernel)
{
    static const struct sass_loop none;
    for (int i = 0; i < l->n; i++)
        if (strcmp(l->row[i].kernel, kernel) == 0)
            return &l->row[i].loop;
    CHECK(0, "no main loop of %s", kernel);
    return &none;
}

/* One launch: blocks with `rows` own rows each, whose products take all columns, rounded up to those of the kernel; a
 * block takes `share` of the others of a tile of rows (more than 1: of several tiles). */
struct attention_launch {
    int rows;
    long blocks;
    double share;
    double dots, products;
    double bytes, waits; /* of each score from and to memory, all the time, and in passes that do nothing else */
    size_t shared;
};

/* Cycles. */
static double launch_cycles(const struct attention_launch *l, int gpu, const struct rp_attention *a, double bound)
{
    const long n = (a->seq + l->rows - 1) / l->rows;
    const long each = (l->blocks + gpus[gpu].multiprocessors - 1) / gpus[gpu].multiprocessors;
    const int W = RP_ATT_STREAM_W(a->head_dim), dots = (a->head_dim + 15) / 16 * 16,
              wide = (a->head_dim + 16 * W - 1) / (16 * W) * 16 * W;
    const double byte = gpus[gpu].ghz * 1e9 * gpus[gpu].multiprocessors / (gpus[gpu].terabytes * 1e12);
    double others = 0;
    for (int i = 0; i < n; i++) /* whole tiles of 64, up to the diagonal */
        others += (double)(((i + 1) * l->rows < a->seq ? (i + 1) * l->rows : a->seq) + 63) / 64 * 64 / (double)n;
    const int alone = each < 2 || 2 * (l->shared + 1024) > (size_t)gpus[gpu].shared + 1024;
    const double work = (l->dots * dots + l->products * wide) / (gpus[gpu].lanes * bound) * (alone ? 1.25 : 1);
    return (double)each * l->share * l->rows * others *
           ((work > l->bytes * byte ? work : l->bytes * byte) + l->waits * byte);
}

/* The exponential of a score is written and read again; both as from memory, although the cache has some. */
static double forward_cycles(char name[64], const struct attention_loops *loops, int gpu, const struct rp_cuda *c,
                             const struct rp_attention *a)
{
    int id, ignored, kept;
    rp_cuda_attention_rows(c, a, &id, &ignored);
    rp_cuda_attention_slabs(c, a, &kept);
    const int rows = id % 10;
    const double share = (double)kept / (double)((a->seq + 63) / 64);
    const long all = (long)a->batch * a->heads * ((a->seq + 8 * rows - 1) / (8 * rows));
    struct attention_launch l = {8 * rows, all, 1, 1, 1, 0, 0, RP_ATT_FORWARD_SHARED((size_t)rows, (size_t)a->seq)};
    snprintf(name, 64, "attention_forward_%d", 8 * rows);
    if (id > 10) {
        l = (struct attention_launch){.rows = 8 * rows, .blocks = all, .share = 1, .products = 1, .bytes = 4 * share};
        l.dots = 1 + 2 * (1 - share);
        l.waits = 8 * share;
        l.shared = RP_ATT_STREAM_SHARED((size_t)rows, (size_t)a->head_dim);
        snprintf(name, 64, "attention_stream_%dx%d", rows, RP_ATT_STREAM_W(a->head_dim));
    }
    return launch_cycles(&l, gpu, a, attention_loop(loops, name)->bound);
}

/* A block for each head. */
static double heads_cycles(char name[64], const struct attention_loops *loops, int gpu, const struct rp_attention *a,
                           int rows)
{
    const size_t shared = RP_ATT_BACKWARD_SHARED((size_t)rows);
    const struct attention_launch l = {64, (long)a->batch * a->heads, (a->seq + 63) / 64, 2, 3, 0, 0, shared};
    snprintf(name, 64, a->head_dim > RP_ATT_DIM ? "attention_backward_wide" : "attention_backward_%d", 8 * rows);
    return launch_cycles(&l, gpu, a, attention_loop(loops, name)->bound);
}

/* The launches of all parts, each of some tiles of keys of some heads. */
static double backward_cycles(char name[64], const struct attention_loops *loops, int gpu, const struct rp_cuda *c,
                              const struct rp_attention *a)
{
    const int W = RP_ATT_STREAM_W(a->head_dim), length = (a->seq + 63) / 64, heads = a->batch * a->heads;
    const size_t dim = (size_t)a->head_dim, products = RP_ATT_PRODUCTS_SHARED(dim);
    char queries_name[64];
    int ignored, id, part_heads;
    rp_cuda_attention_rows(c, a, &ignored, &id);
    if (id < 10)
        return heads_cycles(name, loops, gpu, a, id);
    snprintf(queries_name, sizeof queries_name, "attention_queries_%d", W);
    snprintf(name, 64, "attention_keys_%d", W);
    const int part_keys = rp_cuda_attention_part(c, a, &part_heads);
    double cycles = 0;
    for (int head = 0; head < heads; head += part_heads)
        for (int key = 0; key < length; key += part_keys) {
            const int k = length - key < part_keys ? length - key : part_keys;
            const int n = heads - head < part_heads ? heads - head : part_heads;
            const struct attention_launch gradients = {64, (long)n * k, 1, 2, 0, 8, 0, RP_ATT_GRADIENTS_SHARED(dim)};
            const struct attention_launch keys = {64, 2L * n * k, 1, 0, 1, 4, 0, products};
            const struct attention_launch queries = {64, (long)n * length, (double)k / length, 0, 1, 4, 0, products};
            cycles += launch_cycles(&gradients, gpu, a, attention_loop(loops, "attention_gradients")->bound) +
                      launch_cycles(&keys, gpu, a, attention_loop(loops, name)->bound) +
                      launch_cycles(&queries, gpu, a, attention_loop(loops, queries_name)->bound);
        }
    return cycles;
}

static void attention_cell(struct rp_buf *out, const struct attention_loops *loops, int gpu,
                           const struct rp_attention *a, int backward)
{
    const struct rp_cuda c = {.multiprocessors = gpus[gpu].multiprocessors,
                              .l2 = gpus[gpu].l2,
                              .workspace_bytes = rp_cuda_attention_workspace(a->seq),
                              .gpu = {.shared_max = (size_t)gpus[gpu].shared, .capability = gpus[gpu].arch}};
    const double useful = (backward ? 5.0 : 2.0) * a->batch * a->heads * a->seq * (a->seq + 1.0) / 2 * a->head_dim;
    const double ideal = useful / ((double)gpus[gpu].lanes * gpus[gpu].multiprocessors);
    char name[64] = "attention_";
    const double cycles = (backward ? backward_cycles : forward_cycles)(name, loops, gpu, &c, a);
    CHECK(cycles >= ideal, "%s is expected to do attention faster than it can", gpus[gpu].name);
    rp_buf_printf(out, "  %-21s %3.0f %6.1f", name + 10, 100 * ideal / cycles,
                  2e-3 * useful / (cycles / gpus[gpu].ghz));
}

static void attention_table(struct rp_buf *out, const struct attention_loops *loops)
{
    static const struct {
        int batch, seq, heads, dim;
    } shapes[] = {{4, 1024, 12, 64}, {4, 1024, 16, 96},  {4, 1024, 16, 128}, {4, 2048, 12, 64},
                  {4, 2048, 16, 96}, {4, 2048, 16, 128}, {1, 8192, 16, 96}};
    static const int of_gpu[GPUS] = {ARCHS - 1, 2, 0};
    rp_buf_printf(out, "kernel               ");
    for (int i = 0; i < ARCHS; i++)
        rp_buf_printf(out, "      sm_%d", archs[i]);
    rp_buf_puts(out, "\n");
    for (int k = 0; k < loops[0].n; k++) {
        rp_buf_printf(out, "%-21s", loops[0].row[k].kernel + 10);
        for (int i = 0; i < ARCHS; i++) {
            const struct sass_loop *l = attention_loop(&loops[i], loops[0].row[k].kernel);
            rp_buf_printf(out, "  %3.0f %4.1f ", l->ffma ? 100.0 * l->ffma / l->instructions : 0, 100.0 * l->bound);
        }
        rp_buf_puts(out, "\n");
    }
    rp_buf_printf(out, "\n%30s", "");
    for (int i = 0; i < GPUS; i++)
        rp_buf_printf(out, "  %-33s", gpus[i].name);
    rp_buf_puts(out, "\n");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int backward = 0; backward < 2; backward++) {
            const struct rp_attention a = {.batch = shapes[i].batch, .seq = shapes[i].seq, .heads = shapes[i].heads,
                                           .head_dim = shapes[i].dim, .causal = 1};
            rp_buf_printf(out, "%-8s %2d x %2d x %4d x %3d  ", backward ? "backward" : "forward", a.batch, a.heads,
                          a.seq, a.head_dim);
            for (int g = 0; g < GPUS; g++)
                attention_cell(out, &loops[of_gpu[g]], g, &a, backward);
            rp_buf_puts(out, "\n");
        }
}

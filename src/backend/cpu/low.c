/* Sizes of the scratch of products in mixed precision. */
#include "backend/cpu/low.h"

#define LOW_PARTIAL_BYTES ((size_t)32 << 20) /* of sums that wait to be added */
#define LOW_PIXEL_BYTES ((size_t)16 << 20)   /* of gathered pixels */
#define LOW_ROWS 96                          /* rows that a tile's operand is packed by: RP_TC_MC */
#define LOW_QUERIES 64                       /* as in low_attention.inc.h */

size_t rp_cpu_low_tiles(enum rp_isa isa, int threads)
{
    return (size_t)threads * rp_tc_scratch(rp_tc_kernel(isa, 1));
}

long rp_cpu_low_rows(long pieces, long n)
{
    const size_t row = (size_t)pieces * (size_t)n * sizeof(float), rows = LOW_PARTIAL_BYTES / (row ? row : 1);
    return rows <= LOW_ROWS ? LOW_ROWS : (long)(rows / LOW_ROWS * LOW_ROWS);
}

static long pieces_of(long k, long length)
{
    return k > length ? (k + length - 1) / length : 1;
}

static size_t partial_of(long pieces, long m, long n)
{
    const long most = rp_cpu_low_rows(pieces, n), rows = m < most ? m : most;
    return rp_low_aligned((size_t)pieces * (size_t)rows * (size_t)n * sizeof(float));
}

size_t rp_cpu_low_partial(long m, long n, long k)
{
    const size_t weight = partial_of(pieces_of(k, rp_low_segment((int)m, (int)n, (int)k)), m, n);
    const size_t other = partial_of(pieces_of(k, RP_LOW_CHAIN), m, n);
    return weight > other ? weight : other;
}

size_t rp_cpu_low_attention(int seq, int head_dim)
{
    const size_t s = (size_t)seq, d = (size_t)head_dim,
                 block =
                     LOW_QUERIES * s > LOW_QUERIES * RP_LOW_KEYS ? LOW_QUERIES * s : (size_t)LOW_QUERIES * RP_LOW_KEYS;
    return 4 * rp_low_aligned(s * d * 2) + 2 * rp_low_aligned(block * 2) + 2 * rp_low_aligned(block * 4) +
           rp_low_aligned(LOW_QUERIES * d * 4) + 2 * rp_low_aligned(s * d * 4);
}

long rp_cpu_low_pixels(long row)
{
    const size_t rows = LOW_PIXEL_BYTES / ((size_t)row * 2);
    return rows <= LOW_ROWS ? LOW_ROWS : (long)(rows / LOW_ROWS * LOW_ROWS);
}

size_t rp_cpu_low_conv(const struct rp_conv *c, enum rp_op op)
{
    const long inputs = (long)c->batch * c->in_h * c->in_w, rows = rp_conv_rows(c), taps = rp_conv_taps(c);
    const size_t x = rp_low_aligned((size_t)inputs * (size_t)c->in_c * 2),
                 dy = rp_low_aligned((size_t)rows * (size_t)c->out_c * 2);
    if (op == RP_OP_conv_wgrad) {
        const long length = rp_low_segment(c->out_c, (int)taps, (int)rows);
        return x + dy + rp_low_aligned((size_t)length * (size_t)taps * 2) +
               rp_low_aligned((size_t)pieces_of(rows, length) * (size_t)c->out_c * (size_t)taps * sizeof(float));
    }
    const int is_forward = op == RP_OP_conv_forward;
    const long k = (long)c->kernel_h * rp_low_row(c->kernel_w, is_forward ? c->in_c : c->out_c),
               n = is_forward ? c->out_c : c->in_c;
    const long most = rp_cpu_low_pixels(k), all = is_forward ? rows : inputs;
    return (is_forward ? x : dy) + rp_low_aligned((size_t)k * (size_t)n * 2) +
           rp_low_aligned((size_t)most * (size_t)k * 2) + rp_cpu_low_partial(all < most ? all : most, n, k);
}

size_t rp_cpu_low_scratch(enum rp_isa isa, int threads, const struct rp_op_use *u)
{
    const size_t tiles = rp_cpu_low_tiles(isa, threads);
    if (u->op == RP_OP_gemm)
        return tiles + rp_low_aligned((size_t)u->rows * (size_t)u->depth * 2) +
               rp_low_aligned((size_t)u->width * (size_t)u->depth * 2) +
               rp_cpu_low_partial(u->rows, u->width, u->depth);
    if (u->op == RP_OP_conv_forward || u->op == RP_OP_conv_dgrad || u->op == RP_OP_conv_wgrad)
        return tiles + rp_cpu_low_conv(&u->conv, u->op);
    return tiles + (size_t)threads * rp_cpu_low_attention(u->seq, u->head_dim);
}

/* Mixed precision, literally: what is stored, and products: a part of reference.c, which includes it once. */

static int is_mixed(const struct rp_dev *dev)
{
    return dev && rp_is_mixed(dev->numerics);
}

static uint16_t low_of(const struct rp_dev *dev, float x)
{
    return rp_low_of(rp_arithmetic_of(dev->numerics)->format, r_bits(x));
}

/* x as it is stored: rounded to 16 bits in mixed precision. */
static float stored(const struct rp_dev *dev, float x)
{
    return is_mixed(dev) ? r_float(rp_low_value(rp_arithmetic_of(dev->numerics)->format, low_of(dev, x))) : x;
}

/* The end of element (i, j) of a product: bias, addend, and what is stored of it. */
static void gemm_end(const struct rp_dev *dev, const struct rp_gemm *g, long i, long j, float s)
{
    const float *add = g->c32 ? g->add32 : g->add;
    if (g->bias)
        s = s + g->bias[j];
    if (add)
        s = s + add[i * g->ldadd + j];
    if (g->c32)
        g->c32[i * g->ldc + j] = s;
    else
        g->c[i * g->ldc + j] = stored(dev, s);
}

/* A chain of products that grows term by term, from c. low_end() pads the last block with zeros. */
struct low_chain {
    const struct rp_arithmetic *arithmetic;
    uint16_t a[16], b[16];
    int terms; /* of the block at hand */
    uint32_t c;
};

static struct low_chain low_begin(const struct rp_dev *dev, float c)
{
    return (struct low_chain){.arithmetic = rp_arithmetic_of(dev->numerics), .c = r_bits(c)};
}

static void low_add(struct low_chain *s, const struct rp_dev *dev, float a, float b)
{
    s->a[s->terms] = low_of(dev, a);
    s->b[s->terms++] = low_of(dev, b);
    if (s->terms == s->arithmetic->tc.products) {
        s->c = rp_tc_block(s->arithmetic->format, s->arithmetic->tc, s->a, s->b, s->c);
        s->terms = 0;
    }
}

static float low_end(struct low_chain *s, const struct rp_dev *dev)
{
    while (s->terms)
        low_add(s, dev, 0.0f, 0.0f);
    return r_float(s->c);
}

/* Term k of a product. */
struct low_term {
    float a, b;
};
typedef struct low_term (*low_term_fn)(const void *product, long i, long j, long k);

static float low_piece(const struct rp_dev *dev, low_term_fn term, const void *product, long i, long j, long k,
                       long end)
{
    struct low_chain s = low_begin(dev, 0.0f);
    for (; k < end; k++) {
        const struct low_term t = term(product, i, j, k);
        low_add(&s, dev, t.a, t.b);
    }
    return low_end(&s, dev);
}

/* Chains of RP_LOW_CHAIN k-steps, added in order. */
static float low_sum(const struct rp_dev *dev, low_term_fn term, const void *product, long i, long j, long k)
{
    float total = 0.0f;
    for (long k0 = 0; k0 < k; k0 += RP_LOW_CHAIN) {
        const float s = low_piece(dev, term, product, i, j, k0, k - k0 < RP_LOW_CHAIN ? k : k0 + RP_LOW_CHAIN);
        total = k0 == 0 ? s : total + s;
    }
    return total;
}

/* The balanced tree over pieces [first, first + n) of `length` k-steps. */
static float low_tree(const struct rp_dev *dev, low_term_fn term, const void *product, long i, long j, long k,
                      long length, long first, long n)
{
    if (n > 1) {
        const long left = rp_tree_split(n);
        const float a = low_tree(dev, term, product, i, j, k, length, first, left);
        const float b = low_tree(dev, term, product, i, j, k, length, first + left, n - left);
        return a + b;
    }
    const long from = first * length;
    return low_piece(dev, term, product, i, j, from, k - from < length ? k : from + length);
}

/* A weight gradient [m, n] over k rows. */
static float low_weight(const struct rp_dev *dev, low_term_fn term, const void *product, long i, long j, int m, int n,
                        int k)
{
    const long length = rp_low_segment(m, n, k), pieces = (k + length - 1) / length;
    return k ? low_tree(dev, term, product, i, j, k, length, 0, pieces) : 0.0f;
}

static struct low_term gemm_term(const void *product, long i, long j, long k)
{
    const struct rp_gemm *g = product;
    return (struct low_term){g->ta ? g->a[k * g->lda + i] : g->a[i * g->lda + k],
                             g->tb ? g->b[j * g->ldb + k] : g->b[k * g->ldb + j]};
}

static void low_gemm(const struct rp_dev *dev, const struct rp_gemm *g)
{
    for (long i = 0; i < g->m; i++)
        for (long j = 0; j < g->n; j++) {
            const float s =
                g->ta ? low_weight(dev, gemm_term, g, i, j, g->m, g->n, g->k) : low_sum(dev, gemm_term, g, i, j, g->k);
            gemm_end(dev, g, i, j, s);
        }
}

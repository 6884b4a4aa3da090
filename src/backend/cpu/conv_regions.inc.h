/* The grid of a convolution in regions whose pixels have the same taps inside the image, so that the others are left
 * out:
 *
 *      +---+-------+---+
 *      | 0 |   1   | 2 |     a 3x3 kernel: 0 has two rows and two columns of taps, 1 two rows of three, 4 all
 *      +---+-------+---+
 *      | 3 |   4   | 5 |
 *      +---+-------+---+
 *      | 6 |   7   | 8 |
 *      +---+-------+---+
 */

#define CONV_BANDS 3
#define CONV_REGIONS (CONV_BANDS * CONV_BANDS)

/* Pixels of a grid: of their taps, rows h0..h1, and of each of these w0..w1, are inside the image. */
struct conv_region {
    long first_h, first_w, grid_h, grid_w, rows; /* rows: of the product */
    long h0, h1, w0, w1;
    int parts;                                   /* tasks of this region and those before it */
};

/* Rows, or columns, of a grid and of the image: tap t of row g is row g*step + first + t*by of the image. */
struct conv_axis {
    long grid, step, first, by, taps, size;
};

/* Rows that follow each other, whose taps t0..t1 are inside. */
struct conv_band {
    long first, length, t0, t1;
};

static struct conv_band conv_band_of(const struct conv_axis *a, long g)
{
    struct conv_band b = {g, 1, a->taps, 0};
    for (long t = 0; t < a->taps; t++) {
        const long at = g * a->step + a->first + t * a->by;
        if (at < 0 || at >= a->size)
            continue;
        b.t0 = b.t0 < t ? b.t0 : t;
        b.t1 = t + 1;
    }
    return b;
}

/* Returns how many there are; 0: too many, or some without a tap inside. */
static int conv_bands_of(struct conv_band band[CONV_BANDS], const struct conv_axis *a)
{
    int n = 0;
    for (long g = 0; g < a->grid; g++) {
        const struct conv_band b = conv_band_of(a, g);
        if (n && band[n - 1].t0 == b.t0 && band[n - 1].t1 == b.t1) {
            band[n - 1].length++;
            continue;
        }
        if (n == CONV_BANDS || b.t1 <= b.t0)
            return 0;
        band[n++] = b;
    }
    return n;
}

static struct conv_region conv_whole(const struct conv_axis *h, const struct conv_axis *w, long rows)
{
    return (struct conv_region){0, 0, h->grid, w->grid, rows, 0, h->taps, 0, w->taps, 0};
}

/* Replaces the whole grid, region[0], if at most that share of its products is left. Pixels that do not fill the last
 * strip of a region, of mr pixels, cost as much as a whole one. Returns the number of regions. */
static int conv_regions_of(struct conv_region region[CONV_REGIONS], const struct conv_axis *h,
                           const struct conv_axis *w, long images, long mr, double share)
{
    struct conv_band row[CONV_BANDS], column[CONV_BANDS];
    struct conv_region cut[CONV_REGIONS];
    const int n = conv_bands_of(row, h), m = conv_bands_of(column, w);
    double products = 0;
    for (int i = 0; i < n * m; i++) {
        const struct conv_band *a = &row[i / m], *b = &column[i % m];
        const long rows = images * a->length * b->length, taps = (a->t1 - a->t0) * (b->t1 - b->t0);
        cut[i] = (struct conv_region){a->first, b->first, a->length, b->length, rows, a->t0, a->t1, b->t0, b->t1, 0};
        products += (double)(blocks_of(rows, mr) * mr * taps);
    }
    if (n * m < 2 || products > share * (double)(region->rows * h->taps * w->taps))
        return 1;
    memcpy(region, cut, (size_t)(n * m) * sizeof *cut);
    return n * m;
}

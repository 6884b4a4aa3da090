#include "base/sort.h"

#include "base/buf.h"

#include <string.h>

#define SIGN (1ull << 63)
#define FEW 32 /* up to here one after another */

/* One pass over one byte, stable; 0 when all have the same there. */
static int pass(uint64_t *to, const uint64_t *from, size_t n, unsigned shift)
{
    size_t start[257] = {0};
    for (size_t i = 0; i < n; i++)
        start[(from[i] >> shift & 0xff) + 1]++;
    if (start[(from[0] >> shift & 0xff) + 1] == n)
        return 0;
    for (int d = 0; d < 256; d++)
        start[d + 1] += start[d];
    for (size_t i = 0; i < n; i++)
        to[start[from[i] >> shift & 0xff]++] = from[i];
    return 1;
}

static void sort(uint64_t *v, size_t n)
{
    RP_FREE uint64_t *other = rp_alloc((n + 1) * sizeof *other);
    uint64_t *from = v, *to = other;
    for (unsigned shift = 0; n && shift < 64; shift += 8)
        if (pass(to, from, n, shift)) {
            uint64_t *t = from;
            from = to;
            to = t;
        }
    if (from != v)
        memcpy(v, from, n * sizeof *v);
}

void rp_sort_int64(int64_t *v, size_t n)
{
    uint64_t *u = (uint64_t *)v;
    for (size_t i = 0; i < n; i++)
        u[i] ^= SIGN;
    sort(u, n);
    for (size_t i = 0; i < n; i++)
        u[i] ^= SIGN;
}

static void sort_few(double *v, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        double x = v[i];
        size_t k = i;
        for (; k > 0 && v[k - 1] > x; k--)
            v[k] = v[k - 1];
        v[k] = x;
    }
}

/* The bits of a positive double ascend with it; those of a negative one descend. */
void rp_sort_double(double *v, size_t n)
{
    if (n <= FEW) {
        sort_few(v, n);
        return;
    }
    RP_FREE uint64_t *u = rp_alloc((n + 1) * sizeof *u);
    memcpy(u, v, n * sizeof *u);
    for (size_t i = 0; i < n; i++)
        u[i] ^= u[i] & SIGN ? UINT64_MAX : SIGN;
    sort(u, n);
    for (size_t i = 0; i < n; i++)
        u[i] ^= u[i] & SIGN ? SIGN : UINT64_MAX;
    memcpy(v, u, n * sizeof *u);
}

double rp_median(double *v, size_t n)
{
    rp_sort_double(v, n);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

#include "base/sort.h"

#include <stdlib.h>
#include <string.h>

static int compare_int64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int compare_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void rp_sort_int64(int64_t *v, size_t n)
{
    if (n)
        qsort(v, n, sizeof *v, compare_int64);
}

void rp_sort_double(double *v, size_t n)
{
    if (n)
        qsort(v, n, sizeof *v, compare_double);
}

void rp_sort_text(const char **v, size_t n)
{
    if (n)
        qsort(v, n, sizeof *v, compare_text);
}

double rp_median(double *v, size_t n)
{
    rp_sort_double(v, n);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

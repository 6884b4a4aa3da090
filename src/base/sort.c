/* Merge sorts: the qsort() of musl moves every element with memcpy(), which took a seventh of `compare`. */
#include "base/sort.h"

#include "base/buf.h"

#include <stdlib.h>
#include <string.h>

#define RUN 12 /* elements of a run, which is sorted by insertion */

#define IS_LESS(a, b) ((a) < (b))
#define IS_TEXT_LESS(a, b) (strcmp(a, b) < 0)

#define DEFINE_SORT(name, type, is_less)                                                                               \
    /* Runs of `middle` and of n - middle elements into one. */                                                        \
    static void merge_##name(type *to, const type *from, size_t middle, size_t n)                                      \
    {                                                                                                                  \
        size_t a = 0, b = middle;                                                                                      \
        for (size_t i = 0; i < n; i++)                                                                                 \
            to[i] = a < middle && (b == n || !is_less(from[b], from[a])) ? from[a++] : from[b++];                      \
    }                                                                                                                  \
    static void insert_##name(type *v, size_t n)                                                                       \
    {                                                                                                                  \
        for (size_t i = 1; i < n; i++) {                                                                               \
            type one = v[i];                                                                                           \
            size_t at = i;                                                                                             \
            for (; at && is_less(one, v[at - 1]); at--)                                                                \
                v[at] = v[at - 1];                                                                                     \
            v[at] = one;                                                                                               \
        }                                                                                                              \
    }                                                                                                                  \
    void rp_sort_##name(type *v, size_t n)                                                                             \
    {                                                                                                                  \
        for (size_t at = 0; at < n; at += RUN)                                                                         \
            insert_##name(v + at, n - at < RUN ? n - at : RUN);                                                        \
        if (n <= RUN)                                                                                                  \
            return;                                                                                                    \
        type *spare = rp_alloc(n * sizeof *spare), *from = v, *to = spare;                                             \
        for (size_t run = RUN; run < n; run *= 2) {                                                                    \
            for (size_t at = 0; at < n; at += 2 * run) {                                                               \
                const size_t left = n - at;                                                                            \
                merge_##name(to + at, from + at, left < run ? left : run, left < 2 * run ? left : 2 * run);            \
            }                                                                                                          \
            type *was = from;                                                                                          \
            from = to;                                                                                                 \
            to = was;                                                                                                  \
        }                                                                                                              \
        if (from != v)                                                                                                 \
            memcpy(v, from, n * sizeof *v);                                                                            \
        free(spare);                                                                                                   \
    }
typedef const char *text;
DEFINE_SORT(int64, int64_t, IS_LESS)
DEFINE_SORT(double, double, IS_LESS)
DEFINE_SORT(text, text, IS_TEXT_LESS)

double rp_median(double *v, size_t n)
{
    rp_sort_double(v, n);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

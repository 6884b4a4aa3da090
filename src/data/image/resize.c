#include "data/image/resize.h"

#include "base/buf.h"

#if defined __x86_64__
#include <immintrin.h>
#endif
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define POINT 22
#define HALF (1 << (POINT - 1))
#define SPARE 32 /* bytes after the last row, for vector loads and stores */

/* ---- weights ---- */

static void size_taps(struct rp_resize_taps *t, int outputs, int stride)
{
    size_t need = (size_t)outputs * (size_t)stride;
    if (outputs > t->outputs_cap) {
        t->outputs_cap = outputs;
        t->first = rp_realloc(t->first, (size_t)outputs * sizeof *t->first);
        t->count = rp_realloc(t->count, (size_t)outputs * sizeof *t->count);
        t->start = rp_realloc(t->start, (size_t)outputs * sizeof *t->start);
    }
    if (need > t->cap) {
        t->cap = need;
        t->weight = rp_realloc(t->weight, need * sizeof *t->weight);
    }
    t->stride = stride;
}

/* Output X of m from n inputs: its centre is at (2X + 1) n / 2m, input x at (2x + 1) / 2. In units of 1 / 2m the
 * distance is |(2x + 1) m - (2X + 1) n|, and the weight falls to 0 at `reach`. */
static void make_taps(struct rp_resize_taps *t, int n, int m, enum rp_resize_filter filter)
{
    int64_t reach = 2ll * (filter == RP_RESIZE_FILTER_triangular && n > m ? n : m);
    size_taps(t, m, (int)(reach / m) + 2);
    for (int64_t out = 0; out < m; out++) {
        int64_t centre = (2 * out + 1) * n, low = centre - reach - m, sum = 0;
        int64_t x = low < 0 ? 0 : low / (2 * m) + 1; /* the first with (2x + 1) m > centre - reach */
        int32_t *weight = t->weight + out * t->stride;
        int k = 0;
        t->first[out] = (int32_t)x;
        for (; x < n && (2 * x + 1) * m < centre + reach; x++, k++)
            sum += reach - llabs((2 * x + 1) * m - centre);
        t->count[out] = k;
        for (k = 0, x = t->first[out]; k < t->count[out]; k++, x++) {
            int64_t a = reach - llabs((2 * x + 1) * m - centre);
            weight[k] = (int32_t)(((a << (POINT + 1)) + sum) / (2 * sum));
        }
    }
}

/* ---- the two passes ---- */

struct rp_resize_form {
    const char *name;
    int packed; /* across() reads the packed weights */
    void (*across)(uint8_t *out, const uint8_t *in, const struct rp_resize_taps *t, int size, int flip);
    /* row: the first of `count` rows of n bytes */
    void (*down)(uint8_t *out, const uint8_t *row, const int32_t *weight, int count, int n);
};

static uint8_t round_sum(int32_t sum)
{
    int32_t x = sum >> POINT;
    return (uint8_t)(x > 255 ? 255 : x);
}

static void across_scalar(uint8_t *out, const uint8_t *in, const struct rp_resize_taps *t, int size, int flip)
{
    for (int x = 0; x < size; x++) {
        const uint8_t *p = in + 3 * (size_t)t->first[x];
        const int32_t *w = t->weight + (size_t)x * (size_t)t->stride;
        int32_t r = HALF, g = HALF, b = HALF;
        for (int k = 0; k < t->count[x]; k++, p += 3) {
            r += p[0] * w[k];
            g += p[1] * w[k];
            b += p[2] * w[k];
        }
        uint8_t *o = out + 3 * (flip ? size - 1 - x : x);
        o[0] = round_sum(r);
        o[1] = round_sum(g);
        o[2] = round_sum(b);
    }
}

static void down_scalar(uint8_t *out, const uint8_t *row, const int32_t *weight, int count, int n)
{
    for (int i = 0; i < n; i++) {
        int32_t sum = HALF;
        for (int k = 0; k < count; k++)
            sum += row[(size_t)k * (size_t)n + (size_t)i] * weight[k];
        out[i] = round_sum(sum);
    }
}

/* Four inputs at once. Their 12 bytes are spread to words r0 r1 g0 g1 b0 b1 - - | r2 r3 g2 g3 b2 b3 - -, and multiplied
 * in pairs by weights in two parts, w = high * 2^11 + low: w0 w1 w0 w1 w0 w1 - - | w2 w3 w2 w3 w2 w3 - -. No product or
 * sum leaves 32 bits. */
#define LOW_BITS 11

/* 0: so few inputs that the groups would reach beyond them. */
static int pack_taps(struct rp_resize_taps *t, int inputs, int outputs)
{
    int most = 0;
    for (int x = 0; x < outputs; x++)
        most = t->count[x] > most ? t->count[x] : most;
    t->groups = (most + 3) / 4;
    size_t need = (size_t)outputs * (size_t)t->groups * 32;
    if (inputs < 4 * t->groups)
        return 0;
    if (need > t->packed_cap) {
        t->packed_cap = need;
        t->packed = rp_realloc(t->packed, need * sizeof *t->packed);
    }
    memset(t->packed, 0, need * sizeof *t->packed);
    for (int x = 0; x < outputs; x++) {
        int start = t->first[x] + 4 * t->groups <= inputs ? t->first[x] : inputs - 4 * t->groups;
        int16_t *group = t->packed + (size_t)x * (size_t)t->groups * 32;
        t->start[x] = start;
        for (int i = 0; i < t->count[x]; i++) {
            int32_t w = t->weight[(size_t)x * (size_t)t->stride + (size_t)i];
            int k = t->first[x] - start + i;
            int16_t *at = group + k / 4 * 32 + (k & 2) * 4 + (k & 1);
            for (int colour = 0; colour < 3; colour++) {
                at[2 * colour] = (int16_t)(w >> LOW_BITS);
                at[2 * colour + 16] = (int16_t)(w & ((1 << LOW_BITS) - 1));
            }
        }
    }
    return 1;
}

#if defined __x86_64__
/* One output; groups is a constant where it matters, so that no branch depends on the weights. */
__attribute__((target("avx2"), always_inline))
static inline uint32_t sum_groups(const uint8_t *p, const __m256i *w, int groups)
{
    /* pixels 0 and 1, 2 and 3 */
    const __m256i spread = _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1,
                                            6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
    __m256i high = _mm256_setzero_si256(), low = high;
    for (int g = 0; g < groups; g++, p += 12, w += 2) {
        __m256i pixels = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p)), spread);
        high = _mm256_add_epi32(high, _mm256_madd_epi16(pixels, _mm256_loadu_si256(w)));
        low = _mm256_add_epi32(low, _mm256_madd_epi16(pixels, _mm256_loadu_si256(w + 1)));
    }
    __m256i both = _mm256_add_epi32(_mm256_slli_epi32(high, LOW_BITS), low);
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
    sum = _mm_srai_epi32(_mm_add_epi32(sum, _mm_set1_epi32(HALF)), POINT);
    sum = _mm_packus_epi16(_mm_packus_epi32(sum, sum), sum);
    return (uint32_t)_mm_cvtsi128_si32(sum);
}

#define FOR_OUTPUTS(groups)                                                                                            \
    for (int x = 0; x < size; x++, w += 2 * (groups)) {                                                                \
        uint32_t rgb = sum_groups(in + 3 * (size_t)t->start[x], w, groups);                                            \
        memcpy(out + 3 * (flip ? size - 1 - x : x), &rgb, 3);                                                          \
    }

__attribute__((target("avx2"))) static void across_avx2(uint8_t *out, const uint8_t *in, const struct rp_resize_taps *t,
                                                        int size, int flip)
{
    const __m256i *w = (const __m256i *)t->packed;
    if (t->groups == 1)
        FOR_OUTPUTS(1)
    else if (t->groups == 2)
        FOR_OUTPUTS(2)
    else
        FOR_OUTPUTS(t->groups)
}

__attribute__((target("avx2"))) static void down_avx2(uint8_t *out, const uint8_t *row, const int32_t *weight,
                                                      int count, int n)
{
    int i = 0;
    for (; i + 32 <= n; i += 32) {
        __m256i a = _mm256_set1_epi32(HALF), b = a, c = a, d = a;
        for (int k = 0; k < count; k++) {
            const uint8_t *p = row + (size_t)k * (size_t)n + (size_t)i;
            __m256i w = _mm256_set1_epi32(weight[k]);
            a = _mm256_add_epi32(a, _mm256_mullo_epi32(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)), w));
            b = _mm256_add_epi32(
                b, _mm256_mullo_epi32(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(p + 8))), w));
            c = _mm256_add_epi32(
                c, _mm256_mullo_epi32(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(p + 16))), w));
            d = _mm256_add_epi32(
                d, _mm256_mullo_epi32(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(p + 24))), w));
        }
        /* packing works within halves: the words are a0 b0 c0 d0 a1 b1 c1 d1, of 4 bytes each, and are put in order */
        a = _mm256_packus_epi32(_mm256_srai_epi32(a, POINT), _mm256_srai_epi32(b, POINT));
        c = _mm256_packus_epi32(_mm256_srai_epi32(c, POINT), _mm256_srai_epi32(d, POINT));
        a = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(a, c), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
        _mm256_storeu_si256((__m256i *)(out + i), a);
    }
    for (; i < n; i++) {
        int32_t sum = HALF;
        for (int k = 0; k < count; k++)
            sum += row[(size_t)k * (size_t)n + (size_t)i] * weight[k];
        out[i] = round_sum(sum);
    }
}

static const struct rp_resize_form forms[] = {{"scalar", 0, across_scalar, down_scalar},
                                              {"avx2", 1, across_avx2, down_avx2}};

static int last_form(void)
{
    return __builtin_cpu_supports("avx2") != 0;
}
#else
static const struct rp_resize_form forms[] = {{"scalar", 0, across_scalar, down_scalar}};

static int last_form(void)
{
    return 0;
}
#endif

static _Atomic(const struct rp_resize_form *) chosen;

int rp_resize_use(const char *name)
{
    const int last = last_form();
    const struct rp_resize_form *form = name ? NULL : &forms[last];
    for (int i = 0; i <= last; i++)
        if (name && strcmp(forms[i].name, name) == 0)
            form = &forms[i];
    if (form)
        atomic_store(&chosen, form);
    return form ? 0 : -1;
}

/* ---- one window ---- */

void rp_resize_begin(struct rp_resize *r, int width, int height, int size, enum rp_resize_filter filter, int flip)
{
    size_t need = 3 * (size_t)size * (size_t)height + SPARE;
    RP_BUG_IF(width < 1 || height < 1 || width > 65535 || height > 65535 || size < 1 || size > 4096);
    if (!atomic_load(&chosen))
        RP_BUG_IF(rp_resize_use(NULL) < 0);
    r->form = atomic_load(&chosen);
    r->size = size;
    r->flip = flip;
    r->rows = 0;
    make_taps(&r->across, width, size, filter);
    make_taps(&r->down, height, size, filter);
    if (r->form->packed && !pack_taps(&r->across, width, size))
        r->form = &forms[0];
    if (need > r->row_cap) {
        r->row_cap = need;
        r->row = rp_realloc(r->row, need);
    }
}

void rp_resize_row(void *arg, const uint8_t *rgb)
{
    struct rp_resize *r = arg;
    r->form->across(r->row + 3 * (size_t)r->size * (size_t)r->rows++, rgb, &r->across, r->size, r->flip);
}

void rp_resize_end(struct rp_resize *r, uint8_t *out)
{
    const struct rp_resize_taps *t = &r->down;
    size_t line = 3 * (size_t)r->size;
    for (int y = 0; y < r->size; y++)
        r->form->down(out + line * (size_t)y, r->row + line * (size_t)t->first[y],
                      t->weight + (size_t)y * (size_t)t->stride, t->count[y], (int)line);
}

static void free_taps(struct rp_resize_taps *t)
{
    free(t->first);
    free(t->count);
    free(t->weight);
    free(t->start);
    free(t->packed);
}

void rp_resize_fini(struct rp_resize *r)
{
    free_taps(&r->across);
    free_taps(&r->down);
    free(r->row);
    *r = (struct rp_resize){0};
}

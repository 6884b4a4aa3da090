/* Dropout decisions of whole rows: Philox in vector registers, threshold, and the bits into the mask.
 * Compiled once per instruction set by ops_<isa>.c. */

struct decider {
    uint64_t k0[10], k1[10]; /* round keys, in 64-bit lanes for the widening multiplication */
    const struct rp_dropout *drop;
    long width, stride;
    long before; /* rows of a sample on other ranks, before the tensor's */
};

static struct decider decider_of(const struct rp_dropout *drop, long width)
{
    struct decider d = {.drop = drop, .width = width, .stride = rp_mask_stride(width)};
    for (uint32_t r = 0; drop && r < 10; r++) {
        d.k0[r] = (uint32_t)((uint32_t)drop->seed + r * RP_PHILOX_W0);
        d.k1[r] = (uint32_t)((uint32_t)(drop->seed >> 32) + r * RP_PHILOX_W1);
    }
    return d;
}

static int dropout_on(const struct rp_dropout *drop)
{
    return drop && drop->threshold != 0;
}

/* 128 decisions from 32 counters whose word 0 starts at `c` (a multiple of 32). A 64-bit lane holds one counter word in
 * its low half; the high half is whatever the last product left there and is never read. Counters are dealt to the
 * lanes so that the final interleaving of the four output words is two unpack instructions inside 128-bit lanes. */
#if W == 16
RP_LANE void decide_128(uint8_t *bits, const struct decider *d, uint32_t c, uint32_t sample)
{
    const __m512i m0 = _mm512_set1_epi64(RP_PHILOX_M0), m1 = _mm512_set1_epi64(RP_PHILOX_M1);
    const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
    const __m512i limit = _mm512_set1_epi32((int)d->drop->threshold);
    __m512i x0[4], x1[4], x2[4], x3[4];
    UNROLL for (int g = 0; g < 4; g++)
    {
        x0[g] = _mm512_add_epi64(_mm512_set1_epi64((long long)c + 8 * g), order);
        x1[g] = _mm512_set1_epi64(sample);
        x2[g] = _mm512_set1_epi64(d->drop->site);
        x3[g] = _mm512_set1_epi64(d->drop->step);
    }
    for (int r = 0; r < 10; r++) {
        const __m512i k0 = _mm512_set1_epi64((long long)d->k0[r]), k1 = _mm512_set1_epi64((long long)d->k1[r]);
        UNROLL for (int g = 0; g < 4; g++)
        {
            __m512i p0 = _mm512_mul_epu32(x0[g], m0), p1 = _mm512_mul_epu32(x2[g], m1);
            x0[g] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p1, 32), x1[g], k0, 0x96);
            x2[g] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p0, 32), x3[g], k1, 0x96);
            x1[g] = p1;
            x3[g] = p0;
        }
    }
    uint16_t out[8];
    UNROLL for (int g = 0; g < 4; g++)
    {
        __m512i a = _mm512_mask_shuffle_epi32(x0[g], 0xaaaa, x1[g], 0xa0); /* words 0 and 1 of each counter */
        __m512i b = _mm512_mask_shuffle_epi32(x2[g], 0xaaaa, x3[g], 0xa0); /* words 2 and 3 */
        out[2 * g] = _mm512_cmpge_epu32_mask(_mm512_unpacklo_epi64(a, b), limit);
        out[2 * g + 1] = _mm512_cmpge_epu32_mask(_mm512_unpackhi_epi64(a, b), limit);
    }
    memcpy(bits, out, 16);
}
#elif W == 8
RP_LANE void decide_128(uint8_t *bits, const struct decider *d, uint32_t c, uint32_t sample)
{
    const __m256i m0 = _mm256_set1_epi64x(RP_PHILOX_M0), m1 = _mm256_set1_epi64x(RP_PHILOX_M1);
    const __m256i order = _mm256_setr_epi64x(0, 2, 1, 3), limit = _mm256_set1_epi32((int)d->drop->threshold);
    for (int part = 0; part < 4; part++) { /* two vectors of four counters at a time: what 16 registers hold */
        __m256i x0[2], x1[2], x2[2], x3[2];
        UNROLL for (int g = 0; g < 2; g++)
        {
            x0[g] = _mm256_add_epi64(_mm256_set1_epi64x((long long)c + 8 * part + 4 * g), order);
            x1[g] = _mm256_set1_epi64x(sample);
            x2[g] = _mm256_set1_epi64x(d->drop->site);
            x3[g] = _mm256_set1_epi64x(d->drop->step);
        }
        for (int r = 0; r < 10; r++) {
            const __m256i k0 = _mm256_set1_epi64x((long long)d->k0[r]), k1 = _mm256_set1_epi64x((long long)d->k1[r]);
            UNROLL for (int g = 0; g < 2; g++)
            {
                __m256i p0 = _mm256_mul_epu32(x0[g], m0), p1 = _mm256_mul_epu32(x2[g], m1);
                x0[g] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p1, 32), x1[g]), k0);
                x2[g] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p0, 32), x3[g]), k1);
                x1[g] = p1;
                x3[g] = p0;
            }
        }
        UNROLL for (int g = 0; g < 2; g++)
        {
            __m256i a = _mm256_blend_epi32(x0[g], _mm256_slli_epi64(x1[g], 32), 0xaa);
            __m256i b = _mm256_blend_epi32(x2[g], _mm256_slli_epi64(x3[g], 32), 0xaa);
            __m256i low = _mm256_unpacklo_epi64(a, b), high = _mm256_unpackhi_epi64(a, b);
            low = _mm256_cmpeq_epi32(_mm256_max_epu32(low, limit), low);
            high = _mm256_cmpeq_epi32(_mm256_max_epu32(high, limit), high);
            bits[4 * part + 2 * g] = (uint8_t)_mm256_movemask_ps(_mm256_castsi256_ps(low));
            bits[4 * part + 2 * g + 1] = (uint8_t)_mm256_movemask_ps(_mm256_castsi256_ps(high));
        }
    }
}
#else
RP_LANE void decide_128(uint8_t *bits, const struct decider *d, uint32_t c, uint32_t sample)
{
    for (uint32_t i = 0; i < 32; i++) {
        uint32_t x[4] = {c + i, sample, d->drop->site, d->drop->step};
        rp_philox(x, d->drop->seed);
        unsigned four = 0;
        for (int w = 0; w < 4; w++)
            four |= (unsigned)(x[w] >= d->drop->threshold) << w;
        bits[i / 2] = (uint8_t)(i % 2 ? bits[i / 2] | four << 4 : four);
    }
}
#endif

/* The first `columns` decisions of one row of the tensor, into its stride/8 bytes of mask; the bits after them are
 * 0. */
static void decide_first(uint8_t *row_mask, const struct decider *d, long row, long columns)
{
    uint32_t sample = d->drop->first_sample + (uint32_t)(row / d->drop->rows_per_sample);
    uint32_t c = (uint32_t)((d->before + row % d->drop->rows_per_sample) * d->stride / 4);
    long j = 0;
    for (; j < columns; j += 128) {
        uint8_t *bits = row_mask + j / 8;
        decide_128(bits, d, c + (uint32_t)(j / 4), sample);
        for (long b = columns - j; b < 128; b += 8 - (b & 7))
            bits[b / 8] = (uint8_t)(bits[b / 8] & ((1u << (b & 7)) - 1));
    }    memset(row_mask + j / 8, 0, (size_t)(d->stride - j) / 8);
}

static void decide_row(uint8_t *row_mask, const struct decider *d, long row)
{
    decide_first(row_mask, d, row, d->width);
}

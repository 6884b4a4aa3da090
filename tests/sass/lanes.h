/* Loops over the lanes of a warp: how exec.c and float.c read sources and write results. Lanes that are not in the mask
 * keep what they have. */
#pragma once

#include "ops/functions.h"
#include "tests/sass/sass.h"

#define EACH for (int l = 0; l < LANES; l++)
#define EACH_PARALLEL _Pragma("GCC ivdep") EACH

static inline const u32 *integer(const struct simt_warp *w, const struct sass_insn *i, int k, u32 *out)
{
    const u32 *r = sass_row(w, i->s[k]);
    u32 sign = i->sign[k], shift = i->byte[k] ? 8 * (i->byte[k] - 1u) : 0, mask = i->byte[k] ? 255 : ~0u;
    if (!(sign | i->byte[k]))
        return r;
    EACH {
        u32 v = r[l] >> shift & mask;
        v = sign & ABSOLUTE && (s32)v < 0 ? -v : v;
        v = sign & NEGATED ? -v : v;
        out[l] = sign & INVERTED ? ~v : v;
    }
    return out;
}

static inline u32 flushed(u32 x)
{
    return (x & 0x7f800000) == 0 ? x & 0x80000000 : x;
}

static inline const u32 *floats(const struct simt_warp *w, const struct sass_insn *i, int k, u32 *out)
{
    const u32 *r = sass_row(w, i->s[k]);
    u32 keep = i->sign[k] & ABSOLUTE ? 0x7fffffff : ~0u, flip = i->sign[k] & NEGATED ? 0x80000000 : 0;
    if (!i->sign[k] && !(i->flags & FTZ))
        return r;
    EACH {
        u32 v = i->flags & FTZ ? flushed(r[l]) : r[l];
        out[l] = (v & keep) ^ flip;
    }
    return out;
}

/* 64 bits of two rows. */
static inline void pairs(const struct simt_warp *w, const struct sass_insn *i, int k, u64 *out)
{
    const u32 *low = sass_row(w, i->s[k]), *high = sass_row(w, i->s[k] + SASS_ROW(1));
    EACH {
        u64 v = (u64)high[l] << 32 | low[l];
        v = i->sign[k] & NEGATED ? -v : v;
        out[l] = i->sign[k] & INVERTED ? ~v : v;
    }
}

static inline void put_pair(const struct simt_warp *w, const struct sass_insn *i, u32 m, const u64 *value)
{
    u32 *low = sass_row(w, i->d), *high = sass_row(w, i->d + SASS_ROW(1));
    EACH_PARALLEL {
        low[l] = m >> l & 1 ? (u32)value[l] : low[l];
        high[l] = m >> l & 1 ? (u32)(value[l] >> 32) : high[l];
    }
}

/* d[l] = expression, in lanes of m */
#define PUT(expression)                                                                                                \
    {                                                                                                                  \
        u32 *d_ = sass_row(w, i->d);                                                                                   \
        EACH_PARALLEL                                                                                                  \
        {                                                                                                              \
            u32 v_ = (u32)(expression);                                                                                \
            d_[l] = m >> l & 1 ? v_ : d_[l];                                                                           \
        }                                                                                                              \
    }
#define SOURCES(kind)                                                                                                  \
    u32 ta[LANES], tb[LANES], tc[LANES];                                                                               \
    const u32 *a = kind(w, i, 0, ta), *b = kind(w, i, 1, tb), *c = kind(w, i, 2, tc);                                  \
    (void)b, (void)c

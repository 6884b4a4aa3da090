/* Arithmetic in floating point, and conversions. Compile with -ffp-contract=off: each operation rounds once. A NaN
 * result is the one NaN of the hardware. MUFU is rounded correctly here: a GPU's has an error, and the code around it
 * has to hold for both (SASS_ERROR=1).
 */
#include "tests/sass/lanes.h"

#include <fenv.h>
#include <math.h>

#define NAN_BITS 0x7fffffffu

static u32 one_nan(float x)
{
    return x != x ? NAN_BITS : r_bits(x);
}

/* With another rounding than to nearest: only in divisions and roots. */
static float directed(int round, int op, float a, float b, float c)
{
    static const int modes[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
    volatile float x = a, y = b, z = c, out;
    fesetround(modes[round]);
    if (op == SASS_FFMA)
        out = fmaf(x, y, z);
    else if (op == SASS_FMUL)
        out = x * y;
    else
        out = x + y;
    fesetround(FE_TONEAREST);
    return out;
}

static void arithmetic(const struct simt_warp *w, const struct sass_insn *i, u32 m)
{
    SOURCES(floats);
    float out[LANES];
    if (i->round)
        EACH out[l] = directed(i->round, i->op, r_float(a[l]), r_float(b[l]), r_float(c[l]));
    else if (i->op == SASS_FFMA)
        EACH out[l] = __builtin_fmaf(r_float(a[l]), r_float(b[l]), r_float(c[l]));
    else if (i->op == SASS_FMUL)
        EACH out[l] = r_float(a[l]) * r_float(b[l]);
    else
        EACH out[l] = r_float(a[l]) + r_float(b[l]);
    if (i->flags & FTZ)
        PUT(flushed(one_nan(out[l])))
    else
        PUT(one_nan(out[l]))
}

static void smaller_or_larger_float(const struct simt_warp *w, const struct sass_insn *i, u32 m)
{
    SOURCES(floats);
    u32 smaller = sass_get(w, i, 0);
    EACH {
        float x = r_float(a[l]), y = r_float(b[l]);
        int is_smaller = smaller >> l & 1;
        if (x != x || y != y)
            ta[l] = i->flags & NAN_WINS || (x != x && y != y) ? NAN_BITS : x != x ? b[l] : a[l];
        else if (x == y) /* zeros of both signs */
            ta[l] = is_smaller ? a[l] | b[l] : a[l] & b[l];
        else
            ta[l] = (x < y) == is_smaller ? a[l] : b[l];
    }
    PUT(ta[l])
}

static int is_set(const char *name)
{
    const char *value = simt_setting(name);
    return value && *value == '1';
}

/* A finite result that is not 0 or subnormal, one unit in the last place up or down, as the operand decides: the error
 * of a GPU is not larger. */
static u32 with_error(u32 x, u32 operand)
{
    u32 exponent = x >> 23 & 255;
    return exponent < 2 || exponent > 253 ? x : __builtin_popcount(operand) % 2 ? x - 1 : x + 1;
}

static void reciprocal(const struct simt_warp *w, const struct sass_insn *i, u32 m)
{
    static int has_error = -1;
    SOURCES(floats);
    if (has_error < 0)
        has_error = is_set("ERROR");
    EACH {
        float x = r_float(flushed(a[l]));
        u32 result = flushed(one_nan(i->how == H_RCP ? 1.0f / x : (float)(1.0 / sqrt((double)x))));
        tb[l] = has_error ? with_error(result, a[l]) : result;
    }
    PUT(tb[l])
}

/* Whether a quotient needs more than the short way: an exponent is near an end. The bounds are narrower than those of a
 * GPU, and both ways give the same result. */
static void check_quotient(const struct simt_warp *w, const struct sass_insn *i, u32 m)
{
    static int is_always = -1;
    const u32 *a = sass_row(w, i->s[0]), *b = sass_row(w, i->s[1]);
    u32 yes = 0;
    if (is_always < 0)
        is_always = is_set("SLOW");
    EACH {
        int x = a[l] >> 23 & 255, y = b[l] >> 23 & 255;
        yes |= (u32)(is_always || !(y >= 40 && y <= 210 && x >= 80 && x <= 180 && x - y < 80 && y - x < 80)) << l;
    }
    sass_set(w, i->pd[0], m, yes);
}

static void to_float(const struct simt_warp *w, const struct sass_insn *i, u32 m)
{
    static const int modes[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
    SOURCES(integer);
    u64 wide[LANES];
    pairs(w, i, 0, wide);
    fesetround(modes[i->round]);
    EACH {
        volatile float out;
        if (i->type == T_U64)
            out = (float)(volatile u64){wide[l]};
        else if (i->type == T_S32)
            out = (float)(volatile s32){(s32)a[l]};
        else
            out = (float)(volatile u32){i->type == T_U8 ? a[l] & 255 : a[l]};
        ta[l] = r_bits(out);
    }
    fesetround(FE_TONEAREST);
    PUT(ta[l])
}

static u64 to_bits(double x, const struct sass_insn *i)
{
    int bits = i->type == T_U64 ? 64 : 32, is_signed = i->type == T_S32;
    double least = is_signed ? -0x1p31 : 0, limit = ldexp(1, bits - is_signed);
    if (x != x)
        return bits == 64 ? 1ull << 63 : 0;
    x = i->integer == I_TRUNC   ? trunc(x)
        : i->integer == I_FLOOR ? floor(x)
        : i->integer == I_CEIL  ? ceil(x)
                                : nearbyint(x);
    if (x < least)
        return (u64)(s64)least;
    if (x >= limit)
        return bits == 64 ? ~0ull : is_signed ? 0x7fffffff : ~0u;
    return is_signed ? (u64)(s64)x : (u64)x;
}

static void to_integer(const struct simt_warp *w, const struct sass_insn *i, u32 m)
{
    SOURCES(floats);
    u64 out[LANES];
    EACH out[l] = to_bits((double)r_float(a[l]), i);
    if (i->type == T_U64)
        put_pair(w, i, m, out);
    else
        PUT(out[l])
}

int sass_float(const struct simt_warp *w, const struct sass_insn *i, u32 m)
{
    switch (i->op) {
    case SASS_FADD:
    case SASS_FMUL:
    case SASS_FFMA:
        arithmetic(w, i, m);
        return 1;
    case SASS_FMNMX:
        smaller_or_larger_float(w, i, m);
        return 1;
    case SASS_MUFU:
        reciprocal(w, i, m);
        return 1;
    case SASS_FCHK:
        check_quotient(w, i, m);
        return 1;
    case SASS_I2F:
    case SASS_I2FP:
        to_float(w, i, m);
        return 1;
    case SASS_F2I:
        to_integer(w, i, m);
        return 1;
    default:
        return 0;
    }
}

/* Floating-point numbers as text and back, bit for bit. */
#include "base/number_text.h"

#include "base/text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *rp_json_real_text(char out[RP_JSON_REAL], double x)
{
    char text[RP_JSON_REAL - 8]; /* "-1.2345678901234567e-300" */
    int digits = 15;
    do
        snprintf(text, sizeof text, "%.*g", digits, x);
    while (++digits <= 17 && (strtod(text, NULL) < x || strtod(text, NULL) > x));
    const size_t mantissa = strcspn(text, "e");
    const char *exponent = text + mantissa + (text[mantissa] != 0);
    if (!*exponent)
        snprintf(out, RP_JSON_REAL, "%s%s", text, strchr(text, '.') ? "" : ".0");
    else
        snprintf(out, RP_JSON_REAL, "%.*se%s%s", (int)mantissa, text, *exponent == '-' ? "-" : "",
                 exponent + strspn(exponent, "+-0"));
    return out;
}

/* As %a of printf() writes it, which takes ten times as long: every float of a record that is read is written again,
 * to compare the texts. */
void rp_float_hex(char out[32], float x)
{
    const double wide = (double)x; /* as a double every float but 0 is normal: one leading digit */
    uint64_t bits;
    memcpy(&bits, &wide, sizeof bits);
    if (!isfinite(x) || wide == 0) {
        snprintf(out, 32, "%s%s", !isnan(x) && bits >> 63 ? "-" : "", isnan(x) ? "nan" : isinf(x) ? "inf" : "0x0p+0");
        return;
    }
    char *p = out;
    if (bits >> 63)
        *p++ = '-';
    for (const char *begin = "0x1"; *begin;)
        *p++ = *begin++;
    uint64_t fraction = bits << 12;
    if (fraction)
        *p++ = '.';
    for (; fraction; fraction <<= 4)
        *p++ = "0123456789abcdef"[fraction >> 60];
    const int exponent = (int)(bits >> 52 & 2047) - 1023, size = exponent < 0 ? -exponent : exponent;
    *p++ = 'p';
    *p++ = exponent < 0 ? '-' : '+';
    if (size >= 100)
        *p++ = (char)('0' + size / 100);
    if (size >= 10)
        *p++ = (char)('0' + size / 10 % 10);
    *p++ = (char)('0' + size % 10);
    *p = 0;
}

/* The digits and exponent behind "0x1" into the bits of a double; 0: another form. */
static uint64_t unhex_normal(const char *p, const char *end)
{
    uint64_t fraction = 0;
    int digits = 0, exponent = 0;
    if (p < end && *p == '.') {
        for (p++; p < end && digits <= 6; p++, digits++) {
            const int value = rp_hex_digit(*p);
            if (value < 0)
                break;
            fraction = fraction << 4 | (unsigned)value;
        }
        if (!(fraction & 15)) /* none, or a zero at the end */
            return 0;
    }
    if (digits > 6 || end - p < 3 || end - p > 5 || p[0] != 'p' || (p[1] != '+' && p[1] != '-'))
        return 0;
    const int is_negative = p[1] == '-';
    for (const char *d = p + 2; d < end; d++) {
        if (*d < '0' || *d > '9')
            return 0;
        exponent = 10 * exponent + *d - '0';
    }
    if (p[2] == '0' && (is_negative || end - p > 3))
        return 0;
    return (uint64_t)(1023 + (is_negative ? -exponent : exponent)) << 52 | fraction << (52 - 4 * digits);
}

int rp_float_unhex_own(float *out, const char *text, size_t size)
{
    const char *end = text + size, *p = text + (size && *text == '-');
    uint64_t bits;
    double d;
    if (end - p < 6 || memcmp(p, "0x", 2) != 0)
        return -1;
    if (p[2] == '1')
        bits = unhex_normal(p + 3, end);
    else
        bits = end - p == 6 && memcmp(p, "0x0p+0", 6) == 0 ? 0 : 1; /* 1: no float is so small */
    bits |= (uint64_t)(p > text) << 63;
    memcpy(&d, &bits, sizeof d);
    *out = (float)d;
    return (double)*out == d && (*out != 0 || p[2] == '0') && isfinite(*out) ? 0 : -1;
}

/* The hex form only, nothing around it, and a value that a float holds exactly. */
int rp_float_unhex(float *out, const char *text)
{
    const char *digits = text + (*text == '-');
    char *end;
    if (rp_float_unhex_own(out, text, strlen(text)) == 0)
        return 0;
    if (strcmp(text, "nan") == 0 || strcmp(digits, "inf") == 0) {
        *out = *digits == 'n' ? NAN : *text == '-' ? -INFINITY : INFINITY;
        return 0;
    }
    if (strncmp(digits, "0x", 2) != 0 || !strchr(digits, 'p'))
        return -1;
    errno = 0;
    double d = strtod(text, &end);
    if (*end || errno || !(fabs(d) <= 0x1.fffffep127) || (double)(float)d != d)
        return -1;
    *out = (float)d;
    return 0;
}

/* ---- decimal numbers ---- */

enum { FIVES_MOST = 27 }; /* 5^27 is the last power of 5 below 2^63 */

static uint64_t power_of_five(int n)
{
    uint64_t power = 1;
    for (uint64_t square = 5; n; n >>= 1, square *= square)
        power *= n & 1 ? square : 1;
    return power;
}

/* digits / 10^tens, rounded once to the nearest double, of two that are as near to the even one. digits is not 0. */
static double decimal_quotient(uint64_t digits, int tens)
{
    const uint64_t fives = power_of_five(tens);
    const int left = __builtin_clzll(digits), width = 64 - __builtin_clzll(fives);
    const unsigned __int128 wide = (unsigned __int128)(digits << left) << (width - 1); /* below fives * 2^64 */
    uint64_t quotient = (uint64_t)(wide / fives);                                      /* of 63 or 64 bits */
    const int spare = 11 - __builtin_clzll(quotient);
    const uint64_t half = 1ull << (spare - 1), rest = quotient & (2 * half - 1);
    const int is_exact = (unsigned __int128)quotient * fives == wide;
    quotient >>= spare;
    quotient += rest > half || (rest == half && (!is_exact || quotient & 1));
    return ldexp((double)quotient, spare - left - (width - 1) - tens);
}

double rp_json_real(const char *text, size_t size)
{
    const char *p = text, *end = text + size;
    const int is_negative = p < end && *p == '-';
    uint64_t digits = 0;
    int tens = 0, many = 0, exponent = 0, is_below = 0;
    for (p += is_negative; p < end && ((*p >= '0' && *p <= '9') || (*p == '.' && !tens)); p++) {
        if (*p == '.') {
            tens = 1;
            continue;
        }
        digits = 10 * digits + (uint64_t)(*p - '0');
        many += digits != 0;
        tens += tens != 0;
    }
    tens -= tens != 0;
    if (p < end && (*p == 'e' || *p == 'E')) {
        is_below = p + 1 < end && p[1] == '-';
        for (p += 1 + is_below + (p + 1 < end && p[1] == '+'); p < end && *p >= '0' && *p <= '9' && exponent < 1000;
             p++)
            exponent = 10 * exponent + *p - '0';
    }
    tens += is_below ? exponent : -exponent;
    if (p < end || many > 19 || !digits || tens < 0 || tens > FIVES_MOST)
        return strtod(text, NULL);
    const double x = decimal_quotient(digits, tens);
    return is_negative ? -x : x;
}

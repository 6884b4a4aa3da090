#include "data/text/pretokens.h"

#include "base/err.h"
#include "base/text.h"

#include <stdint.h>
#include <string.h>

#define O RP_CHAR_OTHER
#define L RP_CHAR_LETTER
#define N RP_CHAR_NUMBER
#define S RP_CHAR_SPACE
static const unsigned char ascii[128] = {
    O, O, O, O, O, O, O, O, O, S, S, S, S, S, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, /* controls */
    S, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, N, N, N, N, N, N, N, N, N, N, O, O, O, O, O, O, /* to '?' */
    O, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, O, O, O, O, O, /* to '_' */
    O, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, O, O, O, O, O, /* to DEL */
};

static const struct {
    uint32_t first, last;
    unsigned char class;
} ranges[] = {
#define LETTERS(first, last) {first, last, L},
#define NUMBERS(first, last) {first, last, N},
#include "data/text/unicode.def"
#undef LETTERS
#undef NUMBERS
};

/* White_Space beyond ASCII, which is \s. */
static int is_wide_space(unsigned c)
{
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

enum rp_char_class rp_char_class_of(unsigned c)
{
    if (c < 128)
        return ascii[c];
    size_t lo = 0, hi = sizeof ranges / sizeof *ranges; /* the last range that begins at or before c is lo */
    while (hi - lo > 1) {
        size_t mid = (lo + hi) / 2;
        if (ranges[mid].first <= c)
            lo = mid;
        else
            hi = mid;
    }
    if (c >= ranges[lo].first && c <= ranges[lo].last)
        return ranges[lo].class;
    return is_wide_space(c) ? S : O;
}

/* The class of the character at p, and its length. */
static enum rp_char_class class_at(const char *p, size_t n, size_t *length)
{
    unsigned c = (unsigned char)*p;
    *length = 1;
    if (c < 128)
        return ascii[c];
    *length = rp_utf8(p, n, &c);
    RP_BUG_IF(*length == 0);
    return rp_char_class_of(c);
}

/* Bytes from `at` on that belong to characters of one class, counted from p; *last: length of the last one. */
static size_t run_end(const char *p, size_t n, size_t at, enum rp_char_class class, size_t *last)
{
    size_t length;
    while (at < n && class_at(p + at, n - at, &length) == class) {
        at += length;
        *last = length;
    }
    return at;
}

static size_t contraction(const char *p, size_t n)
{
    if (n > 1 && strchr("stmd", p[1]) && p[1])
        return 2;
    return n > 2 && (memcmp(p + 1, "re", 2) == 0 || memcmp(p + 1, "ve", 2) == 0 || memcmp(p + 1, "ll", 2) == 0) ? 3 : 0;
}

size_t rp_pretoken(const char *p, size_t n)
{
    size_t length, last = 0, blank = 0, end = *p == '\'' ? contraction(p, n) : 0;
    if (end)
        return end;
    enum rp_char_class class = class_at(p, n, &length);
    if (*p == ' ' && n > 1) { /* joins what follows */
        class = class_at(p + 1, n - 1, &length);
        blank = class != S;
    }
    if (class != S)
        return run_end(p, n, blank, class, &last);
    /* Space: all of it at the end of the text, else all but the last character, which may join what follows. */
    end = run_end(p, n, 0, S, &last);
    return end == n || end == last ? end : end - last;
}

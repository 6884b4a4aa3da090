#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

size_t rp_utf8(const char *text, size_t n, unsigned *c)
{
    static const unsigned lowest[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *p = (const unsigned char *)text;
    size_t len = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 0;
    if (len == 0 || len > n)
        return 0;
    unsigned v = len == 1 ? p[0] : p[0] & (0xffu >> (len + 1));
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        v = v << 6 | (p[i] & 0x3f);
    }
    if (v < lowest[len] || v > 0x10ffff || (v >= 0xd800 && v < 0xe000))
        return 0;
    *c = v;
    return len;
}

int rp_is_control(unsigned c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0);
}

int rp_is_in(const char *const *list, size_t n, const char *word, size_t len)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(list[i]) == len && memcmp(list[i], word, len) == 0)
            return 1;
    return 0;
}
size_t rp_plain_size(const char *text, size_t n, int tabs)
{
    size_t i = 0;
    for (size_t step; i < n; i += step) {
        unsigned c;
        step = rp_utf8(text + i, n - i, &c);
        if (!step || (rp_is_control(c) && !(tabs && c == '\t')) || rp_is_bidi_control(c))
            break;
    }
    return i;
}

int rp_same_text(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

int rp_ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), k = strlen(end);
    return n >= k && strcmp(text + n - k, end) == 0;
}

const char *rp_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

int rp_parse_count(const char *text, int64_t *out)
{
    char *end;
    text += strspn(text, " \t");
    if (*text < '0' || *text > '9')
        return -1;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return errno || end[strspn(end, " \t\n")] ? -1 : 0;
}

const char *rp_s(int64_t n)
{
    return n == 1 ? "" : "s";
}

const unsigned char rp_hex_value[256] = {
    ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,
    ['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
    ['A'] = 27, ['B'] = 28, ['C'] = 29, ['D'] = 30, ['E'] = 31, ['F'] = 32,
};

int rp_is_sha256(const char *text)
{
    int n = 0;
    while (rp_hex_digit(text[n]) >= 0)
        n++;
    return n == 64 && !text[n];
}

/* Marks, embeddings, overrides and isolates of writing direction, and the separators of lines and paragraphs. */
int rp_is_bidi_control(unsigned c)
{
    return c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

/* Unicode's Default_Ignorable_Code_Point, which has no shape of its own, and the anchors of annotations. Without U+FE00
 * to U+FE0F: they choose the form of emoji, in honest titles too. */
int rp_is_invisible(unsigned c)
{
    static const unsigned ranges[][2] = {{0xad, 0xad},       {0x34f, 0x34f},    {0x115f, 0x1160}, {0x17b4, 0x17b5},
                                         {0x180b, 0x180f},   {0x200b, 0x200f},  {0x2060, 0x206f}, {0x3164, 0x3164},
                                         {0xfeff, 0xfeff},   {0xffa0, 0xffa0},  {0xfff0, 0xfffb}, {0x1bca0, 0x1bca3},
                                         {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (c >= ranges[i][0] && c <= ranges[i][1])
            return 1;
    return rp_is_bidi_control(c);
}

void rp_sanitize(char *text)
{
    size_t n = strlen(text);
    for (size_t i = 0, len; i < n; i += len) {
        unsigned c = 0;
        len = rp_utf8(text + i, n - i, &c);
        if (len && !rp_is_control(c) && !rp_is_invisible(c))
            continue;
        len = len ? len : 1;
        memset(text + i, c == '\n' || c == '\t' ? ' ' : '?', len);
    }
}

const char *rp_ascii(char *out, size_t size, const char *text)
{
    size_t n = 0;
    for (; text[n] && n + 1 < size; n++)
        out[n] = text[n] >= ' ' && text[n] <= '~' ? text[n] : '?';
    out[n] = 0;
    return out;
}

const char *rp_excerpt(char out[72], const char *text)
{
    size_t n = strlen(text), o = 0;
    while (n && o < 60) {
        unsigned c = 0;
        size_t len = rp_utf8(text, n, &c);
        int good = len && !rp_is_control(c) && !rp_is_invisible(c);
        if (good && o + len > 60)
            break;
        if (good)
            memcpy(out + o, text, len);
        else
            out[o] = '?';
        o += good ? len : 1;
        text += len ? len : 1;
        n -= len ? len : 1;
    }
    if (n) {
        memcpy(out + o, "...", 3);
        o += 3;
    }
    out[o] = 0;
    return out;
}

void rp_list_numbers(char *out, size_t size, const char *in, int n)
{
    size_t used = 0;
    *out = 0;
    for (int i = 0, end; i < n; i = end) {
        char one[40];
        end = i + 1;
        if (!in[i])
            continue;
        while (end < n && in[end])
            end++;
        if (end - i > 1)
            snprintf(one, sizeof one, "%s%d-%d", used ? ", " : "", i, end - 1);
        else
            snprintf(one, sizeof one, "%s%d", used ? ", " : "", i);
        if (used + strlen(one) + 8 > size) {
            snprintf(out + used, size - used, ", ...");
            return;
        }
        used += (size_t)snprintf(out + used, size - used, "%s", one);
    }
}

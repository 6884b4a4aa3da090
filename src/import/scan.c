#include "import/scan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COUNT_MAX 1000000000000000

const char *rp_scan_after(const char *line, const char *mark)
{
    const char *at = strstr(line, mark);
    return at ? at + strlen(mark) : NULL;
}

static const char *skip_blanks(const char *p)
{
    return p + strspn(p, " \t");
}

const char *rp_scan_real(const char *p, double *out)
{
    char text[64], *end;
    p = skip_blanks(p);
    size_t n = strspn(p, "0123456789.eE+-");
    n = n < sizeof text ? n : sizeof text - 1;
    memcpy(text, p, n);
    text[n] = 0;
    *out = strtod(text, &end); /* only of what decimal numbers are made of: no "nan", no "0x" */
    return end > text && isfinite(*out) ? p + (end - text) : NULL;
}

const char *rp_scan_count(const char *p, int64_t *out)
{
    p = skip_blanks(p);
    const char *start = p;
    for (*out = 0; *p >= '0' && *p <= '9' && *out <= COUNT_MAX; p++)
        *out = *out * 10 + (*p - '0');
    return p > start && *out <= COUNT_MAX ? p : NULL;
}

const char *rp_scan_grouped(const char *p, int64_t *out)
{
    int64_t part;
    const char *end = rp_scan_count(p, out);
    while (end && *end == ',' && strspn(end + 1, "0123456789") == 3 && *out <= COUNT_MAX / 1000) {
        end = rp_scan_count(end + 1, &part);
        *out = *out * 1000 + part;
    }
    return end;
}

/* n digits at *p, moved on; -1 where they are not. */
static int read_digits(const char **p, int n)
{
    int v = 0;
    for (int i = 0; i < n; i++, (*p)++) {
        if (**p < '0' || **p > '9')
            return -1;
        v = v * 10 + (**p - '0');
    }
    return v;
}

/* "14:29:13" with a fraction or without, at p. */
static int clock_at(const char *p, double *seconds)
{
    int h = read_digits(&p, 2), m = h >= 0 && *p == ':' ? (p++, read_digits(&p, 2)) : -1,
        s = m >= 0 && *p == ':' ? (p++, read_digits(&p, 2)) : -1;
    if (h < 0 || m < 0 || s < 0 || h > 23 || m > 59 || s > 60)
        return -1;
    double fraction = 0, unit = 0.1;
    if (*p == '.' || *p == ',')
        for (p++; *p >= '0' && *p <= '9'; p++, unit /= 10)
            fraction += unit * (*p - '0');
    *seconds = h * 3600 + m * 60 + s + fraction;
    return 0;
}

static int date_at(const char *p, double *seconds)
{
    int y = read_digits(&p, 4), m = y >= 1970 && *p == '-' ? (p++, read_digits(&p, 2)) : -1,
        d = m >= 0 && *p == '-' ? (p++, read_digits(&p, 2)) : -1;
    if (m < 1 || m > 12 || d < 1 || d > 31 || (*p != ' ' && *p != 'T') || clock_at(p + 1, seconds) < 0)
        return -1;
    struct tm day = {.tm_year = y - 1900, .tm_mon = m - 1, .tm_mday = d};
    *seconds += (double)timegm(&day);
    return 0;
}

int rp_scan_stamp(const char *line, double *seconds, int *of_day)
{
    int inside = 0; /* a number: no time begins there */
    for (const char *p = line; *p; p++) {
        int digit = *p >= '0' && *p <= '9';
        *of_day = 0;
        if (digit && !inside && date_at(p, seconds) == 0)
            return 0;
        *of_day = 1;
        if (digit && !inside && clock_at(p, seconds) == 0)
            return 0;
        inside = digit;
    }
    return -1;
}

char *rp_scan_field(char **p, char separator)
{
    char *start = *p, *to = start, *from = start;
    if (*from == '"') {
        for (from++; *from && (*from != '"' || from[1] == '"'); from++) {
            from += *from == '"';
            *to++ = *from;
        }
        if (*from != '"')
            return NULL;
        from++;
        from += strspn(from, " ");
    } else {
        while (*from && *from != separator)
            *to++ = *from++;
    }
    int more = *from == separator;
    if (*from && !more)
        return NULL;
    *p = more ? from + 1 : NULL;
    *to = 0;
    while (to > start && (to[-1] == ' ' || to[-1] == '\t'))
        *--to = 0;
    return start + strspn(start, " ");
}

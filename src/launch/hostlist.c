#include "launch/hostlist.h"

#include "base/buf.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { BRACKETS = 8, DIGITS = 18 };

/* One word of a list, cut into literal texts and brackets: text[0] bracket[0] text[1] bracket[1] ... text[n]. */
struct hostlist_word {
    const char *text[BRACKETS + 1], *bracket[BRACKETS];
    size_t text_size[BRACKETS + 1], bracket_size[BRACKETS];
    int64_t values[BRACKETS]; /* of each bracket */
    int n;
    int64_t hosts;
};

static int hostlist_fail(const char *what, const char *why, struct rp_err *err)
{
    return rp_fail(err, RP_MALFORMED, "%s: %s; expected a list such as node[01-04,07],login", what, why);
}

/* Digits at p, at most those of an int64_t: their number, 0 if there are none or too many. */
static size_t read_digits(const char *p, const char *end, int64_t *out)
{
    size_t n = 0;
    for (*out = 0; p + n < end && p[n] >= '0' && p[n] <= '9'; n++) {
        if (n == DIGITS)
            return 0;
        *out = *out * 10 + (p[n] - '0');
    }
    return n;
}

/* "3" or "3-7" at p. Returns where it ends, or NULL. */
static const char *read_range(const char *p, const char *end, int64_t *low, int64_t *high, int *width)
{
    size_t n = read_digits(p, end, low);
    *width = (int)n;
    *high = *low;
    p += n;
    if (n && p < end && *p == '-') {
        n = read_digits(p + 1, end, high);
        p += 1 + n;
    }
    return n && *high >= *low && *high - *low < RP_HOSTLIST_MAX ? p : NULL;
}

/* The values of a bracket, and where `i` is one of them (else -1), that one as text. */
static int64_t bracket_value(const char *p, size_t size, int64_t i, char out[DIGITS + 2])
{
    const char *end = p + size;
    int64_t count = 0;
    for (;;) {
        int64_t low, high;
        int width;
        p = read_range(p, end, &low, &high, &width);
        if (!p || (p < end && *p != ','))
            return -1;
        if (i >= count && i - count <= high - low)
            snprintf(out, DIGITS + 2, "%0*" PRId64, width, low + (i - count));
        count += high - low + 1;
        if (count > RP_HOSTLIST_MAX)
            return -1;
        if (p == end)
            return count;
        p++;
    }
}

static int is_host_byte(char c)
{
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || strchr("-._:%", c);
}

/* The word at p, where no separator is. Returns where it ends, or NULL with *why. */
static const char *read_word(struct hostlist_word *w, const char *p, const char **why)
{
    char unused[DIGITS + 2];
    w->n = 0;
    w->hosts = 1;
    for (;;) {
        w->text[w->n] = p;
        while (*p && is_host_byte(*p))
            p++;
        w->text_size[w->n] = (size_t)(p - w->text[w->n]);
        *why = "there is a character that no host name has";
        if (!*p || strchr(", \t\n", *p))
            return w->n || w->text_size[0] ? p : NULL;
        if (*p != '[')
            return NULL;
        *why = "a name has too many brackets";
        if (w->n == BRACKETS)
            return NULL;
        const char *close = strchr(p, ']');
        *why = "a bracket is not a list of numbers and ranges";
        if (!close)
            return NULL;
        w->bracket[w->n] = p + 1;
        w->bracket_size[w->n] = (size_t)(close - p - 1);
        w->values[w->n] = bracket_value(p + 1, w->bracket_size[w->n], -1, unused);
        if (w->values[w->n] < 1)
            return NULL;
        *why = "there are too many hosts";
        w->hosts *= w->values[w->n];
        if (w->hosts > RP_HOSTLIST_MAX)
            return NULL;
        w->n++;
        p = close + 1;
    }
}

/* Host number i of the word; 0, or -1: the name is too long. */
static int write_host(char out[RP_HOST_MAX + 1], const struct hostlist_word *w, int64_t i)
{
    int64_t digit[BRACKETS];
    size_t used = 0;
    for (int b = w->n - 1; b >= 0; b--) {
        digit[b] = i % w->values[b];
        i /= w->values[b];
    }
    for (int b = 0; b <= w->n; b++) {
        char number[DIGITS + 2] = "";
        if (b < w->n)
            bracket_value(w->bracket[b], w->bracket_size[b], digit[b], number);
        size_t digits = strlen(number);
        if (used + w->text_size[b] + digits > RP_HOST_MAX)
            return -1;
        memcpy(out + used, w->text[b], w->text_size[b]);
        memcpy(out + used + w->text_size[b], number, digits);
        used += w->text_size[b] + digits;
    }
    out[used] = 0;
    return 0;
}

/* The number of hosts; host `wanted` into out if it is one of them. */
static int64_t walk_hosts(char out[RP_HOST_MAX + 1], const char *list, int64_t wanted, const char *what,
                          struct rp_err *err)
{
    int64_t count = 0;
    for (const char *p = list + strspn(list, ", \t\n"), *why; *p; p += strspn(p, ", \t\n")) {
        struct hostlist_word w;
        p = read_word(&w, p, &why);
        if (!p)
            return hostlist_fail(what, why, err);
        if (wanted >= count && wanted - count < w.hosts && write_host(out, &w, wanted - count) < 0)
            return hostlist_fail(what, "a name is too long", err);
        count += w.hosts;
        if (count > RP_HOSTLIST_MAX)
            return hostlist_fail(what, "there are too many hosts", err);
    }
    return count ? count : hostlist_fail(what, "no host is listed", err);
}

int64_t rp_hostlist_count(const char *list, const char *what, struct rp_err *err)
{
    char unused[RP_HOST_MAX + 1];
    return walk_hosts(unused, list, -1, what, err);
}

int rp_hostlist_at(char out[RP_HOST_MAX + 1], const char *list, int64_t i, const char *what, struct rp_err *err)
{
    int64_t count = walk_hosts(out, list, i, what, err);
    if (count < 0)
        return -1;
    if (i < 0 || i >= count)
        return rp_fail(err, RP_MALFORMED, "%s has %" PRId64 " hosts, and number %" PRId64 " was asked for", what, count,
                       i);
    return 0;
}

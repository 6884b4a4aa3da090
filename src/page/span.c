#include "page/span.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

struct rp_span rp_span_of(const struct rp_buf *b)
{
    return (struct rp_span){rp_buf_text(b), b->size};
}

/* memmem() prepares itself for a long search at every call, which most are not. Its own time is bounded for any `what`, though, and ours is
 * not: for the short ones that are written in this program. */
#define SHORT 40

struct rp_span rp_span_find(struct rp_span in, const char *what)
{
    size_t n = strlen(what);
    if (!in.at || in.n < n)
        return (struct rp_span){NULL, 0};
    const char *end = in.at + in.n, *p = in.at;
    if (n > SHORT)
        p = memmem(p, in.n, what, n);
    else
        while (p && (p = memchr(p, *what, (size_t)(end - p))) && ((size_t)(end - p) < n || memcmp(p, what, n) != 0))
            p = (size_t)(end - p) > n ? p + 1 : NULL;
    return p ? (struct rp_span){p, (size_t)(end - p)} : (struct rp_span){NULL, 0};
}

struct rp_span rp_span_between(struct rp_span in, const char *from, const char *to)
{
    struct rp_span a = rp_span_find(in, from);
    if (!a.at)
        return a;
    a = (struct rp_span){a.at + strlen(from), a.n - strlen(from)};
    struct rp_span z = rp_span_find(a, to);
    return z.at ? (struct rp_span){a.at, (size_t)(z.at - a.at)} : z;
}

struct rp_span rp_span_behind(struct rp_span in, struct rp_span part)
{
    const char *end = part.at + part.n;
    return (struct rp_span){end, in.n - (size_t)(end - in.at)};
}

void rp_unescape(struct rp_buf *out, struct rp_span s)
{
    static const struct {
        const char *entity;
        char c;
    } all[] = {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&#39;", '\''}, {"&#96;", '`'}};
    rp_buf_puts(out, "");
    for (size_t i = 0, len; i < s.n; i += len) {
        char c = s.at[i];
        len = 1;
        for (size_t k = 0; c == '&' && k < sizeof all / sizeof *all; k++)
            if (strlen(all[k].entity) <= s.n - i && memcmp(s.at + i, all[k].entity, strlen(all[k].entity)) == 0) {
                c = all[k].c;
                len = strlen(all[k].entity);
                break;
            }
        rp_buf_add(out, &c, 1);
    }
}

const char *rp_span_shown(char out[72], struct rp_span s)
{
    char text[200];
    snprintf(text, sizeof text, "%.*s", (int)(s.n < 190 ? s.n : 190), s.n ? s.at : "");
    for (char *p = text; *p; p++)
        if (*p == '\n' || *p == '\t')
            *p = ' ';
    return rp_shown(out, text);
}

#include "page/span.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

struct rp_span rp_span_of(const struct rp_buf *b)
{
    return (struct rp_span){rp_buf_text(b), b->size};
}

struct rp_span rp_span_from(struct rp_span in, size_t n)
{
    return (struct rp_span){in.at + n, in.n - n};
}

struct rp_span rp_span_find(struct rp_span in, const char *what)
{
    const char *at = in.at ? memmem(in.at, in.n, what, strlen(what)) : NULL;
    return at ? rp_span_from(in, (size_t)(at - in.at)) : (struct rp_span){NULL, 0};
}

struct rp_span rp_span_between(struct rp_span in, const char *from, const char *to)
{
    struct rp_span a = rp_span_find(in, from);
    if (!a.at)
        return a;
    a = rp_span_from(a, strlen(from));
    struct rp_span z = rp_span_find(a, to);
    return z.at ? (struct rp_span){a.at, a.n - z.n} : z;
}

const char *rp_span_shown(char out[72], struct rp_span s)
{
    char text[200];
    snprintf(text, sizeof text, "%.*s", (int)(s.n < 190 ? s.n : 190), s.n ? s.at : "");
    for (char *p = text; *p; p++)
        if (*p == '\n' || *p == '\t')
            *p = ' ';
    return rp_excerpt(out, text);
}

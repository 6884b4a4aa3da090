/* Is a page what this program makes of its bundles? It is made again and compared, but for the box of its maker, which has to be a box and
 * no more. Where it differs, the first figure that does is named, or else the line. */
#include "page/box.h"
#include "page/section.h"

#include "base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define TAG_MAX 4096 /* bytes of the source of a figure */
#define DIGEST 64    /* letters of a SHA-256 */

struct checking {
    const struct rp_shown_bundle *here, *others; /* [n_others] */
    int n_others, markdown;
    struct rp_span page;
    struct rp_shown_bundle shown[RP_PAGE_BUNDLES]; /* [n]: in the order of the page */
    int n, index;                                  /* index: the number of `here` among all that the page shows */
    struct rp_span section, missing;               /* of `here` on the page; the digest of one that is not at hand */
    struct rp_buf own;       /* what this program makes of them */
    struct rp_span *sources; /* [n_sources], in order: what own says of the source and form of each of its figures */
    size_t n_sources;
    int another; /* version of this program made the page */
};

static size_t line_of(struct rp_span page, const char *at)
{
    size_t line = 1;
    for (const char *p = page.at; p < at; p++)
        line += *p == '\n';
    return line;
}

/* ---- figures ---- */

static const json_t *document(const struct checking *c, const char *member)
{
    return strcmp(member, RP_RUN) == 0                         ? c->here->v->run
           : strcmp(member, RP_BEFORE) == 0                    ? c->here->kept->before
           : strcmp(member, RP_OF_NODE(0, ".after.json")) == 0 ? c->here->kept->after
           : strcmp(member, RP_OF_SIGNATURES) == 0             ? c->here->v->signatures
                                                               : NULL;
}

static int by_bytes(const void *a, const void *b)
{
    const struct rp_span *x = a, *y = b;
    int order = memcmp(x->at, y->at, x->n < y->n ? x->n : y->n);
    return order ? order : (x->n > y->n) - (x->n < y->n);
}

/* Every SOURCE" data-form="FORM of our own page. */
static void collect_sources(struct checking *c)
{
    static const char mark[] = " data-src=\"", form[] = "\" data-form=\"";
    struct rp_span rest = rp_span_of(&c->own);
    size_t room = 0;
    while ((rest = rp_span_find(rest, mark)).at) {
        rest = (struct rp_span){rest.at + sizeof mark - 1, rest.n - (sizeof mark - 1)};
        const char *end = memchr(rest.at, '"', rest.n);
        size_t n = end ? (size_t)(end - rest.at) : 0, left = rest.n - n;
        if (!end || left < sizeof form || memcmp(end, form, sizeof form - 1) != 0)
            continue; /* a link to data */
        const char *close = memchr(end + sizeof form - 1, '"', left - (sizeof form - 1));
        if (c->n_sources == room)
            c->sources = rp_realloc(c->sources, (room = 2 * room + 256) * sizeof *c->sources);
        if (close)
            c->sources[c->n_sources++] = (struct rp_span){rest.at, (size_t)(close - rest.at)};
    }
    if (c->n_sources)
        qsort(c->sources, c->n_sources, sizeof *c->sources, by_bytes);
}

/* Does our own page show that source in that form? Otherwise a page could scale a figure to anything. */
static int is_ours(const struct checking *c, struct rp_span src, struct rp_span form)
{
    RP_BUF pair = {0};
    rp_buf_add(&pair, src.at, src.n);
    rp_buf_puts(&pair, "\" data-form=\"");
    rp_buf_add(&pair, form.at, form.n);
    struct rp_span key = rp_span_of(&pair);
    return c->n_sources && bsearch(&key, c->sources, c->n_sources, sizeof key, by_bytes) != NULL;
}

/* One <data>...</data>. */
static int figure(struct checking *c, struct rp_span element, struct rp_err *err)
{
    struct rp_span src = rp_span_between(element, " data-src=\"", "\""), form = rp_span_between(element, " data-form=\"", "\""),
        text = rp_span_between(element, ">", "</data>");
    RP_BUF source = {0}, again = {0};
    char is[72], expected[72];
    if (!src.at || !form.at || !text.at || src.n > TAG_MAX || form.n > 32)
        return rp_fail(err, RP_MISMATCH, "line %zu of the page has a figure that does not say where it comes from",
                       line_of(c->page, element.at));
    if (!is_ours(c, src, form)) {
        if (c->another)
            return 0;
        return rp_fail(err, RP_MISMATCH, "line %zu of the page was changed: a figure there has a source or form that this program does not "
                                         "write",
                       line_of(c->page, element.at));
    }
    rp_unescape(&source, src);
    char *hash = strchr(source.data, '#');
    if (hash)
        *hash++ = 0;
    const json_t *doc = hash ? document(c, source.data) : NULL;
    RP_FREE char *how = rp_asprintf("%.*s", (int)form.n, form.at);
    rp_figure(&again, doc, source.data, hash ? hash : "", how);
    if (again.size == element.n && memcmp(again.data, element.at, element.n) == 0)
        return 0;
    struct rp_span ours = rp_span_between(rp_span_of(&again), ">", "</data>");
    if (text.n == ours.n && memcmp(text.at, ours.at, ours.n) == 0) { /* it shows the same, and says another exact value */
        text = rp_span_between(element, " value=\"", "\"");
        ours = rp_span_between(rp_span_of(&again), " value=\"", "\"");
    }
    return rp_fail(err, RP_MISMATCH, "line %zu of the page says '%s' for %s#%s, the bundle '%s'", line_of(c->page, element.at),
                   rp_span_shown(is, text), source.data, hash ? hash : "", rp_span_shown(expected, ours));
}

/* In any spelling that a browser takes for the element; only ours is what a figure is compared with. */
static struct rp_span find_data(struct rp_span in)
{
    static const char open[] = "<data";
    const size_t n = sizeof open - 1;
    while ((in = rp_span_find(in, "<")).at && !(in.n > n && strncasecmp(in.at, open, n) == 0 && !isalpha((unsigned char)in.at[n])))
        in.at++, in.n--;
    return in;
}

static const char bundle_mark[] = " data-bundle=\"";

static struct rp_span find_bundle(struct rp_span in)
{
    return rp_span_find(in, bundle_mark);
}

/* The first in rest: the last that was found if it lies there, so that nothing is looked through twice. There is none: n is 0. */
static struct rp_span first_in(struct rp_span rest, struct rp_span last, struct rp_span (*find)(struct rp_span))
{
    if (last.at && last.at >= rest.at)
        return last;
    last = find(rest);
    return last.at ? last : (struct rp_span){rest.at + rest.n, 0};
}

/* All figures below a data-bundle that is this one. */
static int figures(struct checking *c, struct rp_err *err)
{
    static const char close[] = "</data>";
    const size_t skip = sizeof bundle_mark - 1;
    struct rp_span rest = c->page, d = {0}, b = {0};
    int ours = 0;
    while (rest.n) {
        d = first_in(rest, d, find_data);
        b = first_in(rest, b, find_bundle);
        if (b.n && b.at < d.at) {
            ours = b.n > skip + 64 && memcmp(b.at + skip, c->here->v->statement, 64) == 0 && b.at[skip + 64] == '"';
            rest = (struct rp_span){b.at + skip, b.n - skip};
            continue;
        }
        if (!d.n)
            break;
        struct rp_span end = rp_span_find(d, close);
        if (!end.at)
            return rp_fail(err, RP_MISMATCH, "line %zu of the page has a figure without an end", line_of(c->page, d.at));
        struct rp_span element = {d.at, (size_t)(end.at - d.at) + sizeof close - 1};
        if (ours && figure(c, element, err) < 0)
            return -1;
        rest = (struct rp_span){d.at + element.n, d.n - element.n};
    }
    return 0;
}

/* ---- bytes ---- */

static size_t common(struct rp_span a, struct rp_span b)
{
    size_t n = 0;
    while (n < a.n && n < b.n && a.at[n] == b.at[n])
        n++;
    return n;
}

/* Of the word that a place is in, as far as it is in reach of a message. */
static size_t word_begin(struct rp_span in, size_t place)
{
    size_t n = place;
    while (n && place - n < 30 && !strchr(" \n<>\"", in.at[n - 1]))
        n--;
    return place - n < 30 ? n : place;
}

static int same(const struct checking *c, struct rp_span is, struct rp_span expected, struct rp_err *err)
{
    size_t n = common(is, expected), from = word_begin(is, n);
    char a[72], b[72];
    if (n == is.n && n == expected.n)
        return 0;
    return rp_fail(err, RP_MISMATCH, "line %zu of the page was changed: '%s' stands where this program writes '%s'",
                   line_of(c->page, is.at + n), rp_span_shown(a, (struct rp_span){is.at + from, is.n - from}),
                   rp_span_shown(b, (struct rp_span){expected.at + from, expected.n - from}));
}

/* ---- which bundles ---- */

static const struct rp_shown_bundle *bundle_of(const struct checking *c, struct rp_span digest)
{
    for (int i = -1; i < c->n_others && digest.n == DIGEST; i++) {
        const struct rp_shown_bundle *b = i < 0 ? c->here : &c->others[i];
        if (memcmp(digest.at, b->v->statement, DIGEST) == 0)
            return b;
    }
    return NULL;
}

/* Every bundle that the page shows, by the marks in it: were one forged, the page would be another than is made of them. */
static int list_bundles(struct checking *c, struct rp_err *err)
{
    const char *mark = c->markdown ? "\n" RP_MARKDOWN_MARK : RP_HTML_MARK;
    struct rp_span rest = c->page;
    for (int i = 1; (rest = rp_span_find(rest, mark)).at; i++) {
        struct rp_span at = {rest.at + c->markdown, rest.n - (size_t)c->markdown};
        rest = (struct rp_span){rest.at + strlen(mark), rest.n - strlen(mark)};
        struct rp_span digest = {rest.at, rest.n < DIGEST ? rest.n : DIGEST};
        const struct rp_shown_bundle *b = bundle_of(c, digest);
        if (i > RP_PAGE_BUNDLES)
            return rp_fail(err, RP_MISMATCH, "the page was changed: it shows more than the %d bundles of a page", RP_PAGE_BUNDLES);
        if (b == c->here && !c->index) {
            c->index = i;
            c->section = at;
        }
        if (b)
            c->shown[c->n++] = *b;
        else
            c->missing = digest;
    }
    return c->index ? 0 : rp_fail(err, RP_MISMATCH, "the page does not show this bundle, whose statement has SHA-256 %s",
                                  c->here->v->statement);
}

/* Who names a bundle means to see it on the page. */
static int none_besides(const struct checking *c, struct rp_err *err)
{
    for (int i = 0; i < c->n_others; i++) {
        int there = 0;
        char name[72];
        for (int k = 0; k < c->n; k++)
            there |= strcmp(c->shown[k].v->statement, c->others[i].v->statement) == 0;
        if (!there)
            return rp_fail(err, RP_UNAVAILABLE, "not decided: --with names '%s', which is not on the page; leave it out",
                           rp_shown(name, c->others[i].name));
    }
    return 0;
}

/* ---- all of it ---- */

/* The page but for its box, which lies between the first marks: the inside of a box holds neither. */
static int compare(const struct checking *c, struct rp_err *err)
{
    const char *open = rp_box_open[c->markdown], *close = rp_box_close[c->markdown];
    struct rp_span own = rp_span_of(&c->own), box = rp_span_find(own, open), head = {own.at, own.n - box.n + strlen(open)};
    struct rp_span is = {c->page.at, c->page.n < head.n ? c->page.n : head.n}, inside = rp_span_behind(c->page, is);
    struct rp_span rest = rp_span_find(inside, close);
    if (same(c, is, head, err) < 0)
        return -1;
    if (!rest.at)
        return rp_fail(err, RP_MISMATCH, "the page was changed: its box 'as verified by' has no end");
    inside.n -= rest.n;
    return same(c, rest, rp_span_find(rp_span_behind(own, head), close), err) < 0 ? -1 : rp_box_check(inside, c->markdown, err);
}

/* Of a page that shows others too, which are not at hand. */
static int compare_section(struct checking *c, struct rp_err *err)
{
    struct rp_section s;
    struct rp_span is = c->section;
    rp_section_init(&s, &c->own, c->index, c->here);
    if (c->markdown)
        rp_section_markdown(&s);
    else
        rp_section_bundle(&s);
    is.n = is.n < c->own.size ? is.n : c->own.size;
    return same(c, is, rp_span_of(&c->own), err);
}

static int compare_all(struct checking *c, struct rp_err *err)
{
    static const char maker_mark[] = "<meta name=\"generator\" content=\"";
    RP_BUF empty = {0};
    char maker[72];
    struct rp_err why = {0};
    rp_page_html(&empty, NULL, 0);
    struct rp_span made = rp_span_between(c->page, maker_mark, "\">"), own = rp_span_between(rp_span_of(&empty), maker_mark, "\">");
    c->another = !c->markdown && (made.n != own.n || memcmp(made.at, own.at, own.n) != 0);
    if (!c->missing.at && c->markdown)
        rp_page_markdown(&c->own, c->shown, c->n);
    else if (!c->missing.at)
        rp_page_html(&c->own, c->shown, c->n);
    int differs = (c->missing.at ? compare_section(c, &why) : compare(c, &why)) < 0;
    if (!differs && !c->missing.at)
        return 0;
    collect_sources(c);
    if (figures(c, err) < 0)
        return -1;
    if (differs && c->another)
        return rp_fail(err, RP_UNAVAILABLE,
                       "not decided: another version of repro made the page (%s), which is not compared but for its figures of this "
                       "bundle; do not rely on it, and have it made again with this one",
                       rp_span_shown(maker, made));
    if (differs) {
        *err = why;
        return -1;
    }
    return rp_fail(err, RP_UNAVAILABLE,
                   "not decided: all of this bundle on the page is its own, but the page also shows the bundle whose statement has SHA-256 "
                   "%.*s...; name each with --with, or have a page made of this bundle alone",
                   c->missing.n < 16 ? (int)c->missing.n : 16, rp_span_shown(maker, c->missing));
}

int rp_page_check(struct rp_check_result *r, const struct rp_buf *page, const struct rp_shown_bundle *b,
                  const struct rp_shown_bundle *others, int n_others, struct rp_err *err)
{
    struct checking c = {.here = b, .others = others, .n_others = n_others, .page = rp_span_of(page)};
    RP_BUG_IF(!b->kept);
    const struct rp_buf *sealed = &rp_bundle_find(&b->kept->bundle, "report.md")->bytes;
    c.markdown = page->size < 15 || memcmp(page->data, "<!doctype html>", 15) != 0;
    r->state = RP_CHECK_NOTE;
    snprintf(r->text, sizeof r->text, "it is the sealed report byte for byte, without a verdict above it");
    if (rp_buf_is(page, sealed->data, sealed->size))
        return 0;
    r->state = RP_CHECK_PASSED;
    snprintf(r->text, sizeof r->text, "the body is byte for byte what this program makes of the bundle; the box 'as verified by' is its "
                                      "maker's word and was not compared");
    int failed = list_bundles(&c, err) < 0 || compare_all(&c, err) < 0 || none_besides(&c, err) < 0;
    if (failed)
        *r->text = 0;
    rp_buf_fini(&c.own);
    free(c.sources);
    return failed ? -1 : 0;
}

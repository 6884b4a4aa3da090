/* Is a page what this program makes of its bundles? It is rendered again and compared byte for byte, except the box of its author, which
 * may only contain lines that a box can have. The first difference is reported: the figure, or the line. */
#include "page/box.h"
#include "page/section.h"

#include <stdio.h>
#include <string.h>

#define DIGEST 64 /* letters of a SHA-256 */

struct checking {
    const struct rp_shown_bundle *here, *others; /* [n_others] */
    int n_others, markdown;
    struct rp_span page;
    struct rp_shown_bundle shown[RP_PAGE_BUNDLES]; /* [n]: in the order of the page */
    int n, index;                                  /* index: the number of `here` among all bundles of the page */
    struct rp_span section, missing;               /* of `here` on the page; the digest of a bundle that is not at hand */
    struct rp_buf own;                             /* the same page, rendered here */
};

/* ---- the first difference ---- */

static size_t line_of(struct rp_span page, const char *at)
{
    size_t line = 1;
    for (const char *p = page.at; p < at; p++)
        line += *p == '\n';
    return line;
}

/* The <data> element of our own page that `place` is in; .at NULL: none. */
static struct rp_span figure_around(struct rp_span own, size_t place)
{
    static const char open[] = "<data ", close[] = "</data>";
    size_t from = place;
    while (from && place - from < 4096 && strncmp(own.at + from, open, sizeof open - 1) != 0)
        from--;
    struct rp_span end = rp_span_find(rp_span_from(own, from), close);
    if (strncmp(own.at + from, open, sizeof open - 1) != 0 || !end.at || end.at + sizeof close - 1 <= own.at + place)
        return (struct rp_span){NULL, 0};
    return (struct rp_span){own.at + from, (size_t)(end.at - own.at) - from + sizeof close - 1};
}

/* Backwards to the beginning of the word at a place, as far as a message reaches. */
static size_t word_begin(struct rp_span in, size_t place)
{
    size_t n = place;
    while (n && place - n < 30 && !strchr(" \n<>\"", in.at[n - 1]))
        n--;
    return place - n < 30 ? n : place;
}

/* Reports that the page differs from our own at a place, up to which both are the same. */
static int fail_at(const struct checking *c, struct rp_span is, struct rp_span own, size_t place, struct rp_err *err)
{
    char a[72], b[72], source[72];
    size_t line = line_of(c->page, is.at + place), word = word_begin(own, place);
    struct rp_span figure = figure_around(own, place);
    size_t from = figure.at ? (size_t)(figure.at - own.at) : 0;
    struct rp_span expected = rp_span_between(figure, ">", "</data>"), text = rp_span_between(rp_span_from(is, from), ">", "</data>");
    if (figure.at && text.at && (text.n != expected.n || memcmp(text.at, expected.at, text.n) != 0))
        return rp_fail(err, RP_MISMATCH, "line %zu of the page has '%s' for %s, the bundle '%s'", line, rp_span_shown(a, text),
                       rp_span_shown(source, rp_span_between(figure, " data-src=\"", "\"")), rp_span_shown(b, expected));
    return rp_fail(err, RP_MISMATCH, "line %zu of the page was changed: it has '%s' where this program writes '%s'", line,
                   rp_span_shown(a, rp_span_from(is, word)), rp_span_shown(b, rp_span_from(own, word)));
}

static int compare_bytes(const struct checking *c, struct rp_span is, struct rp_span own, struct rp_err *err)
{
    size_t n = 0;
    while (n < is.n && n < own.n && is.at[n] == own.at[n])
        n++;
    return n == is.n && n == own.n ? 0 : fail_at(c, is, own, n, err);
}

/* ---- which bundles ---- */

static const struct rp_shown_bundle *find_bundle(const struct checking *c, struct rp_span digest)
{
    for (int i = -1; i < c->n_others && digest.n == DIGEST; i++) {
        const struct rp_shown_bundle *b = i < 0 ? c->here : &c->others[i];
        if (memcmp(digest.at, b->v->statement, DIGEST) == 0)
            return b;
    }
    return NULL;
}

/* Every bundle of the page, by its mark. A forged mark leads to another page than this one. */
static int list_bundles(struct checking *c, struct rp_err *err)
{
    const char *mark = c->markdown ? "\n" RP_MARKDOWN_MARK : RP_HTML_MARK;
    struct rp_span rest = c->page;
    for (int i = 1; (rest = rp_span_find(rest, mark)).at; i++) {
        struct rp_span at = rp_span_from(rest, (size_t)c->markdown);
        rest = rp_span_from(rest, strlen(mark));
        struct rp_span digest = {rest.at, rest.n < DIGEST ? rest.n : DIGEST};
        const struct rp_shown_bundle *b = find_bundle(c, digest);
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

/* Every bundle that was named has to be on the page. */
static int find_all_others(const struct checking *c, struct rp_err *err)
{
    for (int i = 0; i < c->n_others; i++) {
        int there = 0;
        struct rp_span name = {c->others[i].name, strlen(c->others[i].name)};
        char text[72];
        for (int k = 0; k < c->n; k++)
            there |= strcmp(c->shown[k].v->statement, c->others[i].v->statement) == 0;
        if (!there)
            return rp_fail(err, RP_UNAVAILABLE, "inconclusive: '%s' was named as another bundle of the page, which does not show it",
                           rp_span_shown(text, name));
    }
    return 0;
}

/* ---- the whole page ---- */

/* Another version of this program would render another page. */
static int check_version(const struct checking *c, struct rp_err *err)
{
    static const char mark[] = "<meta name=\"generator\" content=\"";
    RP_BUF empty = {0};
    char maker[72];
    rp_page_html(&empty, NULL, 0);
    struct rp_span made = rp_span_between(c->page, mark, "\">"), own = rp_span_between(rp_span_of(&empty), mark, "\">");
    if (c->markdown || (made.n == own.n && memcmp(made.at, own.at, own.n) == 0))
        return 0;
    return rp_fail(err, RP_UNAVAILABLE,
                   "inconclusive: another version of repro made the page (%s), which cannot be compared; do not rely on "
                   "it, make it again with this version",
                   rp_span_shown(maker, made));
}

/* Everything except the box, which lies between the first marks: the inside of a box contains neither. */
static int compare_page(struct checking *c, struct rp_err *err)
{
    const char *open = rp_box_open[c->markdown], *close = rp_box_close[c->markdown];
    (c->markdown ? rp_page_markdown : rp_page_html)(&c->own, c->shown, c->n);
    struct rp_span own = rp_span_of(&c->own), box = rp_span_find(own, open), head = {own.at, own.n - box.n + strlen(open)};
    struct rp_span is = {c->page.at, c->page.n < head.n ? c->page.n : head.n};
    if (compare_bytes(c, is, head, err) < 0)
        return -1;
    struct rp_span inside = rp_span_from(c->page, is.n), rest = rp_span_find(inside, close);
    if (!rest.at)
        return rp_fail(err, RP_MISMATCH, "the page was changed: its box 'as verified by' has no end");
    inside.n -= rest.n;
    if (compare_bytes(c, rest, rp_span_find(rp_span_from(own, head.n), close), err) < 0)
        return -1;
    return rp_box_check(inside, c->markdown, err);
}

/* The part of this bundle, on a page with another one that is not at hand. */
static int compare_section(struct checking *c, struct rp_err *err)
{
    struct rp_section s;
    struct rp_span is = c->section;
    char missing[72];
    rp_section_init(&s, &c->own, c->index, c->here);
    (c->markdown ? rp_section_markdown : rp_section_bundle)(&s);
    is.n = is.n < c->own.size ? is.n : c->own.size;
    if (compare_bytes(c, is, rp_span_of(&c->own), err) < 0)
        return -1;
    return rp_fail(
        err, RP_UNAVAILABLE,
        "inconclusive: the section of this bundle matches, but the page also shows the bundle whose statement has SHA-256 %.*s...; "
        "name each bundle of the page with --with, or make a page of this bundle alone",
        c->missing.n < 16 ? (int)c->missing.n : 16, rp_span_shown(missing, c->missing));
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
    snprintf(r->text, sizeof r->text,
             "the body matches the bundle byte for byte; the box 'as verified by' is the claim of the page's author "
             "and was not compared");
    int failed = list_bundles(&c, err) < 0 || check_version(&c, err) < 0 ||
                 (c.missing.at ? compare_section(&c, err) : compare_page(&c, err)) < 0 || find_all_others(&c, err) < 0;
    if (failed)
        *r->text = 0;
    rp_buf_fini(&c.own);
    return failed ? -1 : 0;
}

/* Does a page say what a bundle says? Every figure is made again from its source and compared; where this very program made the page, all
 * of it is: then nobody has touched plots or words either. What cannot be compared is said.
 *
 * The verdict and the table of checks are of whoever made the page: their keys, their replay. In a page of one bundle they may differ from
 * ours, but only in words: of elements there are no others than we write, so that nothing can hide or paint over what was compared. */
#include "page/section.h"

#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct span {
    const char *at;
    size_t n;
};

struct checking {
    const struct rp_shown_bundle *b;
    const struct rp_buf *page;
    struct rp_buf own; /* what this program makes of the bundle alone */
    struct rp_section section;
    size_t figures, unknown; /* of this bundle; those whose form or source this program does not use */
};

static void say(struct rp_check_result *r, enum rp_check_state state, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void say(struct rp_check_result *r, enum rp_check_state state, const char *fmt, ...)
{
    char text[sizeof r->text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    rp_safe(r->text, sizeof r->text, text);
    r->state = state;
}

static struct span find(struct span in, const char *what)
{
    const char *p = in.n ? memmem(in.at, in.n, what, strlen(what)) : NULL;
    return p ? (struct span){p, in.n - (size_t)(p - in.at)} : (struct span){NULL, 0};
}

static struct span whole(const struct rp_buf *b)
{
    return (struct span){rp_buf_text(b), b->size};
}

/* What is between the two, or nothing. */
static struct span between(struct span in, const char *from, const char *to)
{
    struct span a = find(in, from);
    if (!a.at)
        return a;
    a = (struct span){a.at + strlen(from), a.n - strlen(from)};
    struct span z = find(a, to);
    return z.at ? (struct span){a.at, (size_t)(z.at - a.at)} : z;
}

static size_t line_of(const struct rp_buf *page, const char *at)
{
    size_t line = 1;
    for (const char *p = page->data; p < at; p++)
        line += *p == '\n';
    return line;
}

/* Foreign bytes for a message. */
static const char *shown(char out[72], struct span s)
{
    char text[200];
    snprintf(text, sizeof text, "%.*s", (int)(s.n < 190 ? s.n : 190), s.n ? s.at : "");
    return rp_shown(out, text);
}

/* ---- figures ---- */

static void unescape(struct rp_buf *out, struct span s)
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

static const json_t *document(const struct checking *c, const char *member)
{
    return strcmp(member, RP_RUN) == 0                     ? c->b->v->run
           : strcmp(member, RP_BEFORE) == 0                ? c->b->kept->before
           : strcmp(member, "env/node0.after.json") == 0 ? c->b->kept->after
                                                           : NULL;
}

/* Does our own page show that source in that form? Otherwise a page could scale a figure to anything. */
static int is_ours(const struct checking *c, struct span src, struct span form)
{
    RP_FREE char *pair = rp_asprintf("data-src=\"%.*s\" data-form=\"%.*s\"", (int)src.n, src.at, (int)form.n, form.at);
    return strstr(rp_buf_text(&c->own), pair) != NULL;
}

/* One <data>...</data>. */
static int figure(struct checking *c, struct span element, struct rp_err *err)
{
    struct span src = between(element, " data-src=\"", "\""), form = between(element, " data-form=\"", "\""), text = between(element, ">", "</data>");
    RP_BUF source = {0}, again = {0};
    char is[72], expected[72];
    c->figures++;
    if (!src.at || !form.at || !text.at || src.n > 4096 || form.n > 32)
        return rp_fail(err, RP_MISMATCH, "line %zu of the page has a figure that does not say where it comes from", line_of(c->page, element.at));
    unescape(&source, src);
    char *hash = strchr(source.data, '#');
    if (hash)
        *hash++ = 0;
    const json_t *doc = hash ? document(c, source.data) : NULL;
    if (!is_ours(c, src, form)) {
        c->unknown++;
        return 0;
    }
    RP_FREE char *how = rp_asprintf("%.*s", (int)form.n, form.at);
    rp_figure(&again, doc, source.data, hash ? hash : "", how);
    if (again.size == element.n && memcmp(again.data, element.at, element.n) == 0)
        return 0;
    return rp_fail(err, RP_MISMATCH, "line %zu of the page says '%s' for %s#%s, the bundle '%s'", line_of(c->page, element.at), shown(is, text),
                   source.data, hash ? hash : "", shown(expected, between(whole(&again), ">", "</data>")));
}

/* All figures below a data-bundle that is this one. */
static int figures(struct checking *c, struct rp_err *err)
{
    static const char open[] = "<data ", mark[] = " data-bundle=\"", close[] = "</data>";
    struct span rest = whole(c->page);
    int ours = 0;
    while (rest.n) {
        struct span d = find(rest, open), b = find(rest, mark);
        if (b.at && (!d.at || b.at < d.at)) {
            size_t skip = sizeof mark - 1;
            ours = b.n > skip + 64 && memcmp(b.at + skip, c->section.digest, 64) == 0 && b.at[skip + 64] == '"';
            rest = (struct span){b.at + skip, b.n - skip};
            continue;
        }
        if (!d.at)
            break;
        struct span end = find(d, close);
        if (!end.at)
            return rp_fail(err, RP_MISMATCH, "line %zu of the page has a figure without an end", line_of(c->page, d.at));
        struct span element = {d.at, (size_t)(end.at - d.at) + sizeof close - 1};
        if (ours && figure(c, element, err) < 0)
            return -1;
        rest = (struct span){d.at + element.n, d.n - element.n};
    }
    return 0;
}

/* ---- bytes ---- */

static int same(const struct checking *c, struct span is, struct span expected, struct rp_err *err)
{
    size_t n = 0;
    char a[72], b[72];
    while (n < is.n && n < expected.n && is.at[n] == expected.at[n])
        n++;
    if (n == is.n && n == expected.n)
        return 0;
    return rp_fail(err, RP_MISMATCH, "line %zu of the page was changed: '%s' stands where this program writes '%s'", line_of(c->page, is.at + n),
                   shown(a, (struct span){is.at + n, is.n - n}), shown(b, (struct span){expected.at + n, expected.n - n}));
}

/* Only elements that a verdict has, so that it can say something else and do nothing else. */
static int plain_header(const struct checking *c, struct span header, struct rp_err *err)
{
    static const char *const names[] = {"div", "svg", "circle", "path", "h1", "p", "code", "bdi", "details", "summary", "table", "caption", "thead", "tbody",
                                        "tr", "th", "td"};
    for (size_t i = 0; i < header.n; i++) {
        if (header.at[i] != '<')
            continue;
        const char *name = header.at + i + 1;
        name += *name == '/';
        size_t n = strcspn(name, " >");
        if (!RP_IS_IN(names, name, n))
            return rp_fail(err, RP_MISMATCH, "line %zu of the page was changed: a verdict has no element '%.10s'", line_of(c->page, header.at + i), n < 10 ? "" : name);
    }
    return 0;
}

struct parts {
    struct span head, tail, header, title;
};

/* Head before the title, header with the verdict, and all after it. */
static int split(struct parts *p, struct span page)
{
    *p = (struct parts){.title = between(page, "<title>", "</title>"), .header = between(page, "<header>\n", "</header>\n")};
    if (!p->title.at || !p->header.at || p->title.at > p->header.at)
        return -1;
    p->head = (struct span){page.at, (size_t)(p->title.at - page.at)};
    const char *end = p->header.at + p->header.n, *after = p->title.at + p->title.n;
    p->tail = (struct span){end, page.n - (size_t)(end - page.at)};
    return memchr(p->title.at, '<', p->title.n) || after > end ? -1 : 0;
}

static int one_bundle(struct checking *c, struct rp_check_result *r, struct rp_err *err)
{
    struct parts is, own;
    char a[72], b[72];
    if (split(&is, whole(c->page)) < 0 || split(&own, whole(&c->own)) < 0)
        return rp_fail(err, RP_MISMATCH, "the page was changed: it has no title or no header");
    struct span between_is = {is.title.at + is.title.n, (size_t)(is.header.at - is.title.at) - is.title.n};
    struct span between_own = {own.title.at + own.title.n, (size_t)(own.header.at - own.title.at) - own.title.n};
    if (same(c, is.head, own.head, err) < 0 || same(c, between_is, between_own, err) < 0 || same(c, is.tail, own.tail, err) < 0 ||
        plain_header(c, is.header, err) < 0)
        return -1;
    struct span said = between(is.header, "data-verdict=\"", "</h1>"), here = between(own.header, "data-verdict=\"", "</h1>");
    if (said.n > 3)
        said = (struct span){said.at + 3, said.n - 3};
    if (here.n > 3)
        here = (struct span){here.at + 3, here.n - 3};
    say(r, RP_CHECK_NOTE, "%zu figures and all plots are the bundle's, byte for byte; the verdict on the page is its maker's: '%s', here '%s'", c->figures,
        shown(a, said), shown(b, here));
    return 0;
}

/* The section of this bundle on a page of several. */
static int one_of_many(struct checking *c, struct span section, struct rp_check_result *r, struct rp_err *err)
{
    RP_BUF again = {0};
    char *end;
    static const char id[] = "<section class=\"bundle\" id=\"b";
    long index = strtol(section.at + sizeof id - 1, &end, 10);
    if (index < 1 || index > 10000)
        return rp_fail(err, RP_MISMATCH, "the page was changed: its section of this bundle has no number");
    struct rp_section s;
    rp_section_init(&s, &again, (int)index, c->b);
    rp_section_bundle(&s, 2);
    section.n = section.n < again.size ? section.n : again.size;
    if (same(c, section, whole(&again), err) < 0)
        return -1;
    say(r, RP_CHECK_NOTE, "%zu figures and all plots of this bundle are its own, byte for byte; what the page says of other bundles is not compared", c->figures);
    return 0;
}

static int html(struct checking *c, struct rp_check_result *r, struct rp_err *err)
{
    char maker[72];
    RP_FREE char *mark = rp_asprintf("data-bundle=\"%s\"", c->section.digest);
    struct span page = whole(c->page), at = find(page, mark);
    struct span made = between(page, "<meta name=\"generator\" content=\"", "\">"), own = between(whole(&c->own), "<meta name=\"generator\" content=\"", "\">");
    if (!at.at)
        return rp_fail(err, RP_MISMATCH, "the page does not show this bundle, whose statement has SHA-256 %s", c->section.digest);
    if (figures(c, err) < 0)
        return -1;
    if (c->figures == 0)
        return rp_fail(err, RP_MISMATCH, "the page shows no figure of this bundle");
    if (made.n != own.n || memcmp(made.at, own.at, own.n) != 0) {
        say(r, RP_CHECK_NOTE, "%zu figures are those of the bundle%s; made by another version (%s), so that plots and words are not compared", c->figures - c->unknown,
            c->unknown ? " and others have sources unknown here" : "", shown(maker, made));
        return 0;
    }
    if (c->unknown)
        return rp_fail(err, RP_MISMATCH, "the page was changed: %zu figures have sources or forms that this program does not write", c->unknown);
    struct span section = find(page, "<section class=\"bundle\" id=\"b0\"");
    if (section.at)
        return one_bundle(c, r, err);
    for (section = page; (section = find(section, "<section class=\"bundle\" id=\"b")).at; section.at++, section.n--) {
        struct span tag = between(section, "<section", ">");
        if (find(tag, mark).at)
            return one_of_many(c, section, r, err);
    }
    return rp_fail(err, RP_MISMATCH, "the page has no section of this bundle");
}

/* ---- Markdown ---- */

static int markdown(struct checking *c, struct rp_check_result *r, struct rp_err *err)
{
    const struct rp_buf *sealed = &rp_bundle_find(&c->b->kept->bundle, "report.md")->bytes;
    struct span page = whole(c->page), first = {sealed->data, strcspn(rp_buf_text(sealed), "\n") + 1};
    RP_FREE char *heading = rp_asprintf("%.*s", (int)first.n, first.at);
    struct span at = find(page, heading);
    if (!at.at)
        return rp_fail(err, RP_MISMATCH, "the file is no report of this bundle: it does not hold the heading of the sealed report.md");
    if (at.n > sealed->size && memcmp(at.at, sealed->data, sealed->size) == 0) {
        say(r, RP_CHECK_NOTE, "it holds the sealed report byte for byte; the %zu bytes around it are not compared", page.n - sealed->size);
        return 0;
    }
    if (same(c, at, whole(sealed), err) < 0)
        return -1;
    say(r, RP_CHECK_NOTE, "it holds the sealed report byte for byte; the verdict above it is of whoever made the file");
    return 0;
}

int rp_page_check(struct rp_check_result *r, const struct rp_buf *page, const struct rp_shown_bundle *b, struct rp_err *err)
{
    struct checking c = {.b = b, .page = page};
    RP_BUG_IF(!b->kept);
    int is_html = page->size > 15 && memcmp(page->data, "<!doctype html>", 15) == 0, failed = 0;
    if (is_html)
        rp_page_html(&c.own, b, 1);
    else
        rp_page_markdown(&c.own, b, 1);
    rp_section_init(&c.section, &c.own, 0, b);
    if (rp_buf_is(page, c.own.data, c.own.size))
        say(r, RP_CHECK_PASSED, "it is byte for byte what this program makes of the bundle");
    else
        failed = is_html ? html(&c, r, err) < 0 : markdown(&c, r, err) < 0;
    if (failed)
        say(r, RP_CHECK_FAILED, "%s", err->msg);
    rp_buf_fini(&c.own);
    return failed ? -1 : 0;
}

/* Does a page say what a bundle says? Every figure is made again from its source and compared; where this very program made the page, all
 * of it is: then nobody has touched plots or words either. What cannot be compared is said.
 * What depends on who made the page is read by said.c. */
#include "page/said.h"
#include "page/section.h"

#include "base/text.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define TAG_MAX 4096   /* bytes of a tag, and of the source of a figure */
#define HEAD_MAX 65536 /* of what stands above a Markdown report */

struct checking {
    const struct rp_shown_bundle *here, *others; /* [n_others] */
    int n_others;
    struct rp_verification said;
    char name[200];
    struct rp_shown_bundle b; /* called what the page calls it, and verified as the page says it was */
    const struct rp_buf *page;
    struct rp_buf own; /* what this program makes of b alone */
    struct rp_section section;
    int many; /* bundles on the page */
    struct rp_span *sources; /* [n_sources], in order: what own says of the source and form of each of its figures */
    size_t n_sources;
    int another; /* version of this program made the page */
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

static size_t line_of(const struct rp_buf *page, const char *at)
{
    size_t line = 1;
    for (const char *p = page->data; p < at; p++)
        line += *p == '\n';
    return line;
}

/* ---- figures ---- */

static const json_t *document(const struct checking *c, const char *member)
{
    return strcmp(member, RP_RUN) == 0                   ? c->b.v->run
           : strcmp(member, RP_BEFORE) == 0              ? c->b.kept->before
           : strcmp(member, RP_OF_NODE(0, ".after.json")) == 0 ? c->b.kept->after
           : strcmp(member, RP_OF_LEDGER) == 0           ? c->b.v->ledger
           : strcmp(member, RP_OF_SIGNATURES) == 0       ? c->b.v->signatures
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
    c->figures++;
    if (!src.at || !form.at || !text.at || src.n > TAG_MAX || form.n > 32)
        return rp_fail(err, RP_MISMATCH, "line %zu of the page has a figure that does not say where it comes from",
                       line_of(c->page, element.at));
    if (!is_ours(c, src, form)) {
        c->unknown++;
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
    struct rp_span rest = rp_span_of(c->page), d = {0}, b = {0};
    int ours = 0;
    while (rest.n) {
        d = first_in(rest, d, find_data);
        b = first_in(rest, b, find_bundle);
        if (b.n && b.at < d.at) {
            ours = b.n > skip + 64 && memcmp(b.at + skip, c->section.digest, 64) == 0 && b.at[skip + 64] == '"';
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

static int one_bundle(struct checking *c, struct rp_check_result *r, struct rp_err *err)
{
    RP_BUF again = {0}, words = {0};
    const struct rp_verification *here = c->here->v;
    if (rp_said_header(&c->said, rp_span_of(c->page)) < 0)
        return rp_fail(err, RP_MISMATCH, "the page was changed: it has no verdict and table of checks as this program writes them");
    rp_page_html(&again, &c->b, 1);
    if (same(c, rp_span_of(c->page), rp_span_of(&again), err) < 0 || rp_said_no_better(&c->said, here, c->here->kept, err) < 0)
        return -1;
    rp_said_differences(&words, &c->said, here, 1);
    say(r, RP_CHECK_NOTE,
        "%zu figures, plots and words are the bundle's, byte for byte; what the page's maker found is not what is found here%s", c->figures,
        rp_buf_text(&words));
    return 0;
}

/* Whoever made the page may have called the bundle otherwise. */
static void call_it(struct rp_shown_bundle *b, struct rp_span page, char name[200])
{
    struct rp_span is = rp_span_between(page, "\nrepro verify ", " --trust KEY\n");
    if (!is.at || !rp_page_plain_name(is.at, is.n))
        return;
    snprintf(name, 200, "%.*s", (int)is.n, is.at);
    b->name = name;
}

/* ---- several bundles on a page ---- */

static const char section_mark[] = "<section class=\"bundle\" id=\"b";

/* The section of a bundle with that mark in its tag, up to the next; or nothing, also behind a tag that is longer than any of ours. */
static struct rp_span section_of(struct rp_span page, const char *mark)
{
    struct rp_span at = page, tag, next;
    for (; (at = rp_span_find(at, section_mark)).at; at = rp_span_behind(at, tag)) {
        tag = rp_span_between((struct rp_span){at.at, at.n < TAG_MAX ? at.n : TAG_MAX}, "<section", ">");
        if (!tag.at)
            break;
        if (*mark && !rp_span_find(tag, mark).at)
            continue;
        next = rp_span_find((struct rp_span){at.at + 1, at.n - 1}, section_mark);
        at.n -= next.n;
        return at;
    }
    return (struct rp_span){NULL, 0};
}

static int one_of_many(struct checking *c, struct rp_span section, struct rp_err *err)
{
    RP_BUF again = {0};
    char *end;
    long index = strtol(section.at + sizeof section_mark - 1, &end, 10);
    if (index < 1 || index > 10000)
        return rp_fail(err, RP_MISMATCH, "the page was changed: its section of this bundle has no number");
    struct rp_section s;
    rp_section_init(&s, &again, (int)index, &c->b);
    rp_section_bundle(&s, 2);
    section.n = section.n < again.size ? section.n : again.size;
    return same(c, section, rp_span_of(&again), err);
}

/* Every bundle that the page shows, in its order. */
struct several {
    struct rp_shown_bundle b[RP_PAGE_BUNDLES];
    struct rp_verification said[RP_PAGE_BUNDLES];
    const struct rp_verification *here[RP_PAGE_BUNDLES];
    char name[RP_PAGE_BUNDLES][200];
    int n;
};

static const struct rp_shown_bundle *bundle_of(const struct checking *c, struct rp_span digest)
{
    for (int i = -1; i < c->n_others; i++) {
        const struct rp_shown_bundle *b = i < 0 ? c->here : &c->others[i];
        if (digest.n == 64 && memcmp(digest.at, b->v->statement, 64) == 0)
            return b;
    }
    return NULL;
}

static int add_section(struct several *all, const struct checking *c, struct rp_span section, struct rp_err *err)
{
    struct rp_span tag = rp_span_between(section, "<section", ">"), digest = rp_span_between(tag, " data-bundle=\"", "\"");
    if (!digest.at || all->n == RP_PAGE_BUNDLES)
        return rp_fail(err, RP_UNAVAILABLE, "not decided: all of this bundle on the page is its own, but the page shows %s too",
                       digest.at ? "more than a page of this program" : "a bundle that failed");
    const struct rp_shown_bundle *b = bundle_of(c, digest);
    if (!b)
        return rp_fail(err, RP_UNAVAILABLE,
                       "not decided: %zu figures and all plots of this bundle are its own, but the page also shows the bundle whose "
                       "statement has SHA-256 %.16s...; name each with --beside, or have a page made of this bundle alone",
                       c->figures, digest.at);
    int i = all->n++;
    all->b[i] = *b;
    all->here[i] = b->v;
    call_it(&all->b[i], section, all->name[i]);
    all->b[i].v = &all->said[i];
    return rp_said_section(&all->said[i], b->v, section, err);
}

static int add_all(struct several *all, const struct checking *c, struct rp_err *err)
{
    struct rp_span page = rp_span_of(c->page), rows = page, section = section_of(page, "");
    for (; section.at; section = section_of(rp_span_behind(page, section), ""))
        if (add_section(all, c, section, err) < 0)
            return -1;
    for (int i = 0; i < all->n; i++) {
        rows = rp_span_find((struct rp_span){rows.at + 1, rows.n - 1}, "<tr data-bundle=\"");
        if (!rows.at || rp_said_row(&all->said[i], rows) < 0)
            return rp_fail(err, RP_MISMATCH, "the page was changed: its table of bundles has no verdict of number %d", i + 1);
    }
    return 0;
}

/* Who names a bundle means to see it on the page. */
static int none_besides(const struct checking *c, const struct rp_shown_bundle *shown, int n, struct rp_err *err)
{
    for (int i = 0; i < c->n_others; i++) {
        int there = 0;
        char name[72];
        for (int k = 0; k < n; k++)
            there |= strcmp(shown[k].v->statement, c->others[i].v->statement) == 0;
        if (!there)
            return rp_fail(err, RP_UNAVAILABLE, "not decided: --beside names '%s', which is not on the page; leave it out",
                           rp_shown(name, c->others[i].name));
    }
    return 0;
}

/* What is on the page is what was made again; is what its maker found what is found here? */
static int judge_all(const struct several *all, const struct checking *c, struct rp_check_result *r, struct rp_err *err)
{
    RP_BUF words = {0}, numbers = {0};
    if (none_besides(c, all->b, all->n, err) < 0)
        return -1;
    rp_buf_puts(&words, "");
    for (int i = 0; i < all->n; i++) {
        size_t before = words.size;
        if (rp_said_no_better(&all->said[i], all->here[i], NULL, err) < 0)
            return rp_wrap(err, "bundle %d of the page", i + 1);
        rp_said_differences(&words, &all->said[i], all->here[i], 0);
        if (words.size > before)
            rp_buf_printf(&numbers, "%s%d", numbers.size ? ", " : "; of numbers ", i + 1);
    }
    if (words.size)
        say(r, RP_CHECK_NOTE, "all of its %d bundles is theirs, byte for byte; what the page's maker found is not what is found here%s",
            all->n, rp_buf_text(words.size > RP_SAID_ROOM ? &numbers : &words));
    else
        say(r, RP_CHECK_PASSED, "it is byte for byte what this program makes of its %d bundles", all->n);
    return 0;
}

static int made_again(const struct several *all, const struct checking *c, struct rp_err *err)
{
    RP_BUF again = {0};
    rp_page_html(&again, all->b, all->n);
    return same(c, rp_span_of(c->page), rp_span_of(&again), err);
}

static void several_free(struct several *all)
{
    for (int i = 0; i < all->n; i++)
        rp_said_fini(&all->said[i]);
    free(all);
}

static int several(struct checking *c, struct rp_span section, struct rp_check_result *r, struct rp_err *err)
{
    struct several *all = rp_alloc(sizeof *all);
    c->many = 1;
    int failed = one_of_many(c, section, err) < 0 || add_all(all, c, err) < 0 || made_again(all, c, err) < 0 ||
        judge_all(all, c, r, err) < 0;
    several_free(all);
    return failed ? -1 : 0;
}

/* ---- HTML ---- */

static int html(struct checking *c, struct rp_check_result *r, struct rp_err *err)
{
    static const char maker_mark[] = "<meta name=\"generator\" content=\"";
    char maker[72];
    RP_FREE char *mark = rp_asprintf("data-bundle=\"%s\"", c->section.digest);
    struct rp_span page = rp_span_of(c->page), section = section_of(page, mark);
    struct rp_span made = rp_span_between(page, maker_mark, "\">"), own = rp_span_between(rp_span_of(&c->own), maker_mark, "\">");
    c->another = made.n != own.n || memcmp(made.at, own.at, own.n) != 0;
    if (!rp_span_find(page, mark).at)
        return rp_fail(err, RP_MISMATCH, "the page does not show this bundle, whose statement has SHA-256 %s", c->section.digest);
    if (rp_said_section(&c->said, c->here->v, section.at ? section : page, err) < 0) {
        struct rp_err why = *err;
        return c->another ? rp_fail(err, RP_UNAVAILABLE, "not decided: another version of repro made the page, and %s", why.msg) : -1;
    }
    c->b.v = &c->said;
    call_it(&c->b, section, c->name);
    rp_buf_fini(&c->own);
    rp_page_html(&c->own, &c->b, 1);
    collect_sources(c);
    if (figures(c, err) < 0)
        return -1;
    if (c->figures == 0)
        return rp_fail(err, RP_MISMATCH, "the page shows no figure of this bundle");
    if (c->another)
        return rp_fail(err, RP_UNAVAILABLE,
                       "not decided: of %zu figures of this bundle on the page %zu are made again and equal, but another version of repro "
                       "made it (%s): what else it says, hides or paints over is not compared, so do not rely on it; have it made again "
                       "with this one",
                       c->figures, c->figures - c->unknown, rp_span_shown(maker, made));
    if (!section.at)
        return rp_fail(err, RP_MISMATCH, "the page has no section of this bundle");
    return section.at[sizeof section_mark - 1] == '0' ? one_bundle(c, r, err) : several(c, section, r, err);
}

/* ---- Markdown ---- */

/* From the heading of the sealed report on. */
static struct rp_span report_in(struct rp_span in, const struct rp_shown_bundle *b)
{
    const char *sealed = rp_buf_text(&rp_bundle_find(&b->kept->bundle, "report.md")->bytes);
    RP_FREE char *heading = rp_asprintf("%.*s", (int)strcspn(sealed, "\n") + 1, sealed);
    return rp_span_find(in, heading);
}

/* The head is a verdict, who signed, and nothing else: what stands above, in or below it that this program does not write is somebody's
 * invention in the name of a signed report. Only the verdict is of whoever made the file, in words that a verdict can have. 0: `part` is
 * all that this program writes of b, verified as *said, whose caller gives it back in any case. */
static int report_of(const struct checking *c, struct rp_span part, const struct rp_shown_bundle *b, struct rp_verification *said,
                     struct rp_err *err)
{
    RP_BUF nearest = {0};
    struct rp_span head = part, below = report_in(part, b);
    struct rp_shown_bundle as_said = *b;
    head.n -= below.n;
    as_said.v = said;
    if (!below.at)
        return rp_fail(err, RP_MISMATCH, "the file is no report of this bundle: it does not hold the heading of the sealed report.md");
    if (head.n > HEAD_MAX)
        return rp_fail(err, RP_MISMATCH, "the file was changed: above the report it holds more than this program writes");
    if (rp_said_head(said, b->v, head, err) < 0)
        return -1;
    for (int verdict = RP_VERDICT_FAILED + 1; verdict <= RP_VERDICT_UNDECIDED; verdict++) {
        RP_BUF again = {0};
        said->verdict = (enum rp_verdict)verdict;
        rp_page_markdown(&again, &as_said, 1);
        if (again.size == part.n && memcmp(again.data, part.at, part.n) == 0)
            return 0;
        if (!nearest.size || common(part, rp_span_of(&again)) > common(part, rp_span_of(&nearest))) {
            rp_buf_fini(&nearest);
            rp_buf_add(&nearest, again.data, again.size);
        }
    }
    return same(c, part, rp_span_of(&nearest), err);
}

/* Adds the report to *all if it is one of the bundles that are named; -1: of none, and *why says so of the bundle that is verified. */
static int add_report(struct several *all, const struct checking *c, struct rp_span part, struct rp_err *why)
{
    struct rp_err not_it;
    int n = all->n;
    for (int i = -1; i < c->n_others && n < RP_PAGE_BUNDLES; i++) {
        const struct rp_shown_bundle *b = i < 0 ? c->here : &c->others[i];
        all->said[n] = (struct rp_verification){0};
        if (report_of(c, part, b, &all->said[n], i < 0 ? why : &not_it) == 0) {
            all->b[n] = *b;
            all->here[n] = b->v;
            all->n++;
            return 0;
        }
        rp_said_fini(&all->said[n]);
    }
    return -1;
}

/* One report after the other, with a line between two. Every byte of the file is in one of them: what is of none stays undecided. */
static int add_reports(struct several *all, const struct checking *c, struct rp_err *err)
{
    struct rp_span rest = rp_span_of(c->page), strange = {0};
    int ours = 0, headed = 0, n = 0;
    while (rest.n) {
        if (n++ == RP_PAGE_BUNDLES)
            return rp_fail(err, RP_MISMATCH, "the file was changed: it holds more than the %d reports that this program writes",
                           RP_PAGE_BUNDLES);
        struct rp_span part = rest, next = rp_span_find(rest, RP_BETWEEN_REPORTS "> **");
        struct rp_err why = {0};
        part.n -= next.n;
        rest = next.at ? (struct rp_span){next.at + sizeof RP_BETWEEN_REPORTS - 1, next.n - (sizeof RP_BETWEEN_REPORTS - 1)} : next;
        if (add_report(all, c, part, &why) == 0)
            ours |= all->here[all->n - 1] == c->here->v;
        else if (!strange.at || (!headed && report_in(part, c->here).at)) {
            headed = report_in(part, c->here).at != NULL;
            strange = part;
            *err = why;
        }
    }
    if (!ours)
        return -1;
    if (strange.at)
        return rp_fail(err, RP_UNAVAILABLE,
                       "not decided: the report of this bundle is its own, byte for byte, but what begins in line %zu of the file is of no "
                       "bundle that is named, or was changed; name each with --beside, or have a file made of this bundle alone",
                       line_of(c->page, strange.at));
    return 0;
}

static int several_reports(struct checking *c, struct rp_check_result *r, struct rp_err *err)
{
    struct several *all = rp_alloc(sizeof *all);
    c->many = 1;
    int failed = add_reports(all, c, err) < 0 || judge_all(all, c, r, err) < 0;
    several_free(all);
    return failed ? -1 : 0;
}

static int markdown(struct checking *c, struct rp_check_result *r, struct rp_err *err)
{
    const struct rp_buf *sealed = &rp_bundle_find(&c->here->kept->bundle, "report.md")->bytes;
    struct rp_span page = rp_span_of(c->page);
    RP_BUF words = {0};
    if (rp_span_find(page, RP_BETWEEN_REPORTS "> **").at)
        return several_reports(c, r, err);
    if (rp_buf_is(c->page, sealed->data, sealed->size)) {
        say(r, RP_CHECK_NOTE, "it is the sealed report byte for byte, without a verdict above it");
        return 0;
    }
    if (report_of(c, page, c->here, &c->said, err) < 0 || rp_said_no_better(&c->said, c->here->v, NULL, err) < 0)
        return -1;
    rp_said_differences(&words, &c->said, c->here->v, 0);
    say(r, RP_CHECK_NOTE, "the sealed report byte for byte; what stands above it is its maker's%s", rp_buf_text(&words));
    return 0;
}

/* Would a browser that is given the file as HTML see another page than one who reads Markdown? */
static int no_markup(const struct rp_buf *file, struct rp_err *err)
{
    static const char *const marks[] = {"<!doctype", "<html", "<!--", "<head", "<body", "<style", "<script"};
    struct rp_span rest = rp_span_of(file);
    for (; (rest = rp_span_find(rest, "<")).at; rest.at++, rest.n--)
        for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
            if (rest.n >= strlen(marks[i]) && strncasecmp(rest.at, marks[i], strlen(marks[i])) == 0)
                return rp_fail(err, RP_MISMATCH,
                               "the file holds '%s' in line %zu: it is no Markdown report, and a page begins with '<!doctype html>'",
                               marks[i], line_of(file, rest.at));
    return 0;
}

int rp_page_check(struct rp_check_result *r, const struct rp_buf *page, const struct rp_shown_bundle *b,
                  const struct rp_shown_bundle *others, int n_others, struct rp_err *err)
{
    struct checking c = {.here = b, .others = others, .n_others = n_others, .b = *b, .page = page};
    RP_BUG_IF(!b->kept);
    int is_html = page->size > 15 && memcmp(page->data, "<!doctype html>", 15) == 0, failed = 0;
    call_it(&c.b, rp_span_of(page), c.name);
    if (is_html)
        rp_page_html(&c.own, &c.b, 1);
    else
        rp_page_markdown(&c.own, &c.b, 1);
    rp_section_init(&c.section, &c.own, 0, &c.b);
    if (rp_buf_is(page, c.own.data, c.own.size))
        say(r, RP_CHECK_PASSED, "it is byte for byte what this program makes of the bundle");
    else
        failed = is_html ? html(&c, r, err) < 0 : no_markup(page, err) < 0 || markdown(&c, r, err) < 0;
    failed = failed || (!c.many && none_besides(&c, c.here, 1, err) < 0);
    if (failed)
        say(r, err->code == RP_UNAVAILABLE ? RP_CHECK_SKIPPED : RP_CHECK_FAILED, "%s", err->msg);
    rp_said_fini(&c.said);
    rp_buf_fini(&c.own);
    free(c.sources);
    return failed ? -1 : 0;
}

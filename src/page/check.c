/* Does a page say what a bundle says? Every figure is made again from its source and compared; where this very program made the page, all
 * of it is: then nobody has touched plots or words either. What cannot be compared is said.
 *
 * The verdict and the table of checks are of whoever made the page: their keys, their replay. They are read from the page, and the page is
 * made again from them, byte for byte: so nothing can hide or paint over what was compared. They may be less than ours, never more. */
#include "page/section.h"

#include "base/text.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct span {
    const char *at;
    size_t n;
};

struct checking {
    const struct rp_shown_bundle *b; /* called what the page calls it */
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

/* In any spelling that a browser takes for the element; only ours is what a figure is compared with. */
static struct span find_data(struct span in)
{
    static const char open[] = "<data";
    const size_t n = sizeof open - 1;
    while ((in = find(in, "<")).at && !(in.n > n && strncasecmp(in.at, open, n) == 0 && !isalpha((unsigned char)in.at[n])))
        in.at++, in.n--;
    return in;
}

/* All figures below a data-bundle that is this one. */
static int figures(struct checking *c, struct rp_err *err)
{
    static const char mark[] = " data-bundle=\"", close[] = "</data>";
    struct span rest = whole(c->page);
    int ours = 0;
    while (rest.n) {
        struct span d = find_data(rest), b = find(rest, mark);
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

static size_t common(struct span a, struct span b)
{
    size_t n = 0;
    while (n < a.n && n < b.n && a.at[n] == b.at[n])
        n++;
    return n;
}

static int same(const struct checking *c, struct span is, struct span expected, struct rp_err *err)
{
    size_t n = common(is, expected);
    char a[72], b[72];
    if (n == is.n && n == expected.n)
        return 0;
    return rp_fail(err, RP_MISMATCH, "line %zu of the page was changed: '%s' stands where this program writes '%s'", line_of(c->page, is.at + n),
                   shown(a, (struct span){is.at + n, is.n - n}), shown(b, (struct span){expected.at + n, expected.n - n}));
}

/* ---- the verification on a page of one bundle ---- */

/* Text of a page as it was before it became HTML. -1: longer than any that is written. */
static int text_of(char *out, size_t size, struct span s)
{
    RP_BUF text = {0};
    unescape(&text, s);
    if (!s.at || text.size >= size || memchr(text.data, 0, text.size))
        return -1;
    memcpy(out, rp_buf_text(&text), text.size + 1);
    return 0;
}

/* The row of one check, and what is behind it. */
static int read_row(struct rp_check_result *r, struct span *rest)
{
    struct span row = find(*rest, "<tr><td class=\"state "), state = between(row, "\">", "</td>");
    struct span text = between(row, "</th><td>", "</td></tr>");
    if (!state.at || text_of(r->text, sizeof r->text, text) < 0)
        return -1;
    *rest = (struct span){text.at, rest->n - (size_t)(text.at - rest->at)};
    for (int i = RP_CHECK_SKIPPED; i < RP_CHECK_FAILED; i++)
        if (strlen(rp_check_state_name(i)) == state.n && memcmp(rp_check_state_name(i), state.at, state.n) == 0) {
            r->state = i;
            return 0;
        }
    return -1;
}

/* What the page says was found: the rest of *v is ours, and borrowed. Where it is read wrongly, the page made of it is another one. */
static int read_verification(struct rp_verification *v, const struct rp_verification *here, struct span page)
{
    struct span header = between(page, "<header>\n", "</header>\n"), verdict = between(header, " data-verdict=\"", "\"");
    struct span name = between(header, " (<bdi>", "</bdi>");
    *v = *here;
    *v->signer = 0;
    if (verdict.n != 1 || *verdict.at <= '0' + RP_VERDICT_FAILED || *verdict.at > '0' + RP_VERDICT_UNDECIDED ||
        (name.at && text_of(v->signer, sizeof v->signer, name) < 0))
        return -1;
    v->verdict = (enum rp_verdict)(*verdict.at - '0');
    for (int i = 0; i < RP_CHECK_COUNT; i++)
        if (read_row(&v->check[i], &header) < 0)
            return -1;
    return 0;
}

/* A page may say less than is found here. More would be believed because the page was checked. */
static int no_better(const struct rp_verification *said, const struct rp_verification *here, struct rp_err *err)
{
    static const int verdicts[] = {[RP_VERDICT_UNDECIDED] = 1, [RP_VERDICT_UNKNOWN_KEY] = 2, [RP_VERDICT_VERIFIED] = 3};
    static const int states[] = {[RP_CHECK_WARNING] = 1, [RP_CHECK_SKIPPED] = 2, [RP_CHECK_NOTE] = 3, [RP_CHECK_PASSED] = 4};
    static const char remedy[] = "give verify what the page's maker gave, such as --trust";
    char signer[72];
    if (verdicts[said->verdict] > verdicts[here->verdict])
        return rp_fail(err, RP_MISMATCH, "the page says '%s', here it is '%s'; %s", rp_verdict_text(said->verdict),
                       rp_verdict_text(here->verdict), remedy);
    if (*said->signer && !*here->signer)
        return rp_fail(err, RP_MISMATCH, "the page names '%s' as the signer, here the key has no name; add it with repro key trust",
                       rp_shown(signer, said->signer));
    for (int i = 0; i < RP_CHECK_COUNT; i++)
        if (states[said->check[i].state] > states[here->check[i].state])
            return rp_fail(err, RP_MISMATCH, "the page says '%s' of the check %s, here it is '%s'; %s",
                           rp_check_state_name(said->check[i].state), rp_check_name(i), rp_check_state_name(here->check[i].state), remedy);
    return 0;
}

static const char *found(const struct rp_check_result *r)
{
    return *r->text ? r->text : r->proves;
}

/* Every word that is not ours, as long as there is room: the first ones whole, then names of checks. */
static void differences(struct rp_buf *out, const struct rp_verification *said, const struct rp_verification *here)
{
    char is[72];
    if (said->verdict != here->verdict)
        rp_buf_printf(out, "; its verdict is '%s', here '%s'", rp_verdict_text(said->verdict), rp_verdict_text(here->verdict));
    if (strcmp(said->signer, here->signer) != 0)
        rp_buf_printf(out, "; its signer is '%s', here '%s'", rp_shown(is, said->signer), here->signer);
    for (int i = 0; i < RP_CHECK_COUNT; i++) {
        const struct rp_check_result *a = &said->check[i], *b = &here->check[i];
        if (a->state == b->state && strcmp(found(a), found(b)) == 0)
            continue;
        rp_buf_printf(out, "; of %s %s", rp_check_name(i), rp_check_state_name(a->state));
        if (out->size < 330)
            rp_buf_printf(out, " '%s'", rp_shown(is, found(a)));
    }
}

static int one_bundle(struct checking *c, struct rp_check_result *r, struct rp_err *err)
{
    struct rp_verification said;
    struct rp_shown_bundle b = *c->b;
    RP_BUF again = {0}, words = {0};
    b.v = &said;
    if (read_verification(&said, c->b->v, whole(c->page)) < 0)
        return rp_fail(err, RP_MISMATCH, "the page was changed: it has no verdict and table of checks as this program writes them");
    rp_page_html(&again, &b, 1);
    if (same(c, whole(c->page), whole(&again), err) < 0 || no_better(&said, c->b->v, err) < 0)
        return -1;
    differences(&words, &said, c->b->v);
    say(r, RP_CHECK_NOTE,
        "%zu figures, plots and words are the bundle's, byte for byte; what the page's maker found is not what is found here%s", c->figures, rp_buf_text(&words));
    return 0;
}

/* Whoever made the page may have called the bundle otherwise. */
static void call_it(struct rp_shown_bundle *b, struct span page, char name[200])
{
    struct span is = between(page, "\nrepro verify ", " --trust KEY\n");
    if (!is.at || !rp_page_plain_name(is.at, is.n))
        return;
    snprintf(name, 200, "%.*s", (int)is.n, is.at);
    b->name = name;
}

/* The section of this bundle on a page of several. */
static int one_of_many(struct checking *c, struct span section, struct rp_err *err)
{
    RP_BUF again = {0};
    char *end;
    static const char id[] = "<section class=\"bundle\" id=\"b";
    long index = strtol(section.at + sizeof id - 1, &end, 10);
    if (index < 1 || index > 10000)
        return rp_fail(err, RP_MISMATCH, "the page was changed: its section of this bundle has no number");
    struct rp_section s;
    struct rp_shown_bundle b = *c->b;
    char name[200];
    call_it(&b, section, name);
    rp_section_init(&s, &again, (int)index, &b);
    rp_section_bundle(&s, 2);
    section.n = section.n < again.size ? section.n : again.size;
    if (same(c, section, whole(&again), err) < 0)
        return -1;
    return rp_fail(err, RP_UNAVAILABLE,
                   "not decided: %zu figures and all plots of this bundle are its own, but what stands around them on a page of several "
                   "bundles is not compared; have a page made of this bundle alone, with repro report BUNDLE",
                   c->figures);
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
    int another = made.n != own.n || memcmp(made.at, own.at, own.n) != 0;
    if (c->unknown)
        return rp_fail(err, RP_MISMATCH, "the page was changed%s: %zu figures have sources or forms that this program does not write",
                       another ? ", or another version made it" : "", c->unknown);
    if (another)
        return rp_fail(err, RP_UNAVAILABLE,
                       "not decided: %zu figures are those of the bundle, but another version of repro made the page (%s), so that its "
                       "plots and words are not compared; make it again with this one, or verify with that one",
                       c->figures, shown(maker, made));
    struct span section = find(page, "<section class=\"bundle\" id=\"b0\"");
    if (section.at)
        return one_bundle(c, r, err);
    for (section = page; (section = find(section, "<section class=\"bundle\" id=\"b")).at; section.at++, section.n--) {
        struct span tag = between(section, "<section", ">");
        if (find(tag, mark).at)
            return one_of_many(c, section, err);
    }
    return rp_fail(err, RP_MISMATCH, "the page has no section of this bundle");
}

/* ---- Markdown ---- */

/* The head is a verdict, who signed, and nothing else: what stands above, in or below it that this program does not write is somebody's
 * invention in the name of a signed report. Only the verdict is of whoever made the file, in words that a verdict can have. */
static int markdown(struct checking *c, struct rp_check_result *r, struct rp_err *err)
{
    const struct rp_buf *sealed = &rp_bundle_find(&c->b->kept->bundle, "report.md")->bytes;
    struct span page = whole(c->page);
    RP_FREE char *heading = rp_asprintf("%.*s", (int)strcspn(rp_buf_text(sealed), "\n") + 1, rp_buf_text(sealed));
    RP_BUF nearest = {0};
    if (rp_buf_is(c->page, sealed->data, sealed->size)) {
        say(r, RP_CHECK_NOTE, "it is the sealed report byte for byte, without a verdict above it");
        return 0;
    }
    if (!find(page, heading).at)
        return rp_fail(err, RP_MISMATCH, "the file is no report of this bundle: it does not hold the heading of the sealed report.md");
    for (int verdict = RP_VERDICT_FAILED + 1; verdict <= RP_VERDICT_UNDECIDED; verdict++) {
        struct rp_verification v = *c->b->v;
        struct rp_shown_bundle b = *c->b;
        RP_BUF again = {0};
        v.verdict = (enum rp_verdict)verdict;
        b.v = &v;
        rp_page_markdown(&again, &b, 1);
        if (rp_buf_is(c->page, again.data, again.size)) {
            say(r, RP_CHECK_NOTE, "the sealed report byte for byte; the verdict above it is its maker's: '%s', here '%s'",
                rp_verdict_text(v.verdict), rp_verdict_text(c->b->v->verdict));
            return 0;
        }
        if (!nearest.size || common(page, whole(&again)) > common(page, whole(&nearest))) {
            rp_buf_fini(&nearest);
            rp_buf_add(&nearest, again.data, again.size);
        }
    }
    if (find(page, "\n---\n\n> **").at)
        return rp_fail(err, RP_MISMATCH, "the file holds more than the report of this bundle: Markdown is compared of one bundle alone, "
                                         "several in HTML");
    return same(c, page, whole(&nearest), err);
}

/* Would a browser that is given the file as HTML see another page than one who reads Markdown? */
static int no_markup(const struct rp_buf *file, struct rp_err *err)
{
    static const char *const marks[] = {"<!doctype", "<html", "<!--", "<head", "<body", "<style", "<script"};
    struct span rest = whole(file);
    for (; (rest = find(rest, "<")).at; rest.at++, rest.n--)
        for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
            if (rest.n >= strlen(marks[i]) && strncasecmp(rest.at, marks[i], strlen(marks[i])) == 0)
                return rp_fail(err, RP_MISMATCH,
                               "the file holds '%s' in line %zu: it is no Markdown report, and a page begins with '<!doctype html>'",
                               marks[i], line_of(file, rest.at));
    return 0;
}

int rp_page_check(struct rp_check_result *r, const struct rp_buf *page, const struct rp_shown_bundle *b, struct rp_err *err)
{
    char name[200];
    struct rp_shown_bundle called = *b;
    struct checking c = {.b = &called, .page = page};
    RP_BUG_IF(!b->kept);
    int is_html = page->size > 15 && memcmp(page->data, "<!doctype html>", 15) == 0, failed = 0;
    call_it(&called, whole(page), name);
    if (is_html)
        rp_page_html(&c.own, &called, 1);
    else
        rp_page_markdown(&c.own, &called, 1);
    rp_section_init(&c.section, &c.own, 0, &called);
    if (rp_buf_is(page, c.own.data, c.own.size))
        say(r, RP_CHECK_PASSED, "it is byte for byte what this program makes of the bundle");
    else
        failed = is_html ? html(&c, r, err) < 0 : no_markup(page, err) < 0 || markdown(&c, r, err) < 0;
    if (failed)
        say(r, err->code == RP_UNAVAILABLE ? RP_CHECK_SKIPPED : RP_CHECK_FAILED, "%s", err->msg);
    rp_buf_fini(&c.own);
    return failed ? -1 : 0;
}

/* Every line of a box is one of these forms: its text is escaped, so that it can neither leave the box nor run. */
#include "page/box.h"

#include "base/build.h"
#include "base/json.h"
#include "base/text.h"
#include "page/section.h"
#include "report/escape.h"
#include "verify/levels.h"
#include "verify/state.h"

#include <stdio.h>
#include <string.h>

/* [markdown] */
static const char *const box_open[2] = {
    "<aside class=\"box\" aria-labelledby=\"box-title\"><p id=\"box-title\">"
    "As verified by the author of this page. <code>repro verify</code> gives your own result.</p>",
    "> As verified by the author of this file. `repro verify` gives your own result."};
static const char *const box_close[2] = {"\n</aside>\n", "\n\n"};

/* A text follows `before`, and a second one `between`; without `after` there is no text. */
struct box_line {
    const char *before, *between, *after;
};

/* A bundle is one line, its verdict, which opens to the facts and all checks. Verdicts differ by shape and by colour:
 * either suffices. */
#define VERDICT(class, shape, open)                                                                                    \
    {                                                                                                                  \
        "\n<details class=\"verdict " class "\"" open "><summary><svg width=\"20\" height=\"20\" viewBox=\"0 0 24 "    \
                                                      "24\" aria-hidden=\"true\">"                                     \
                                            "<circle cx=\"12\" cy=\"12\" r=\"11\"/><path d=\"" shape "\"/></svg><h2>", \
            NULL, "</h2></summary>"                                                                                    \
    }
#define ROW(class, state) \
    {"\n<tr><td class=\"state " class "\">" state "</td><th scope=\"row\">", "</th><td>", "</td></tr>"}

enum { GOOD, WARN, BAD, FACT, CHECKS, FIRST_ROW, END = FIRST_ROW + RP_CHECK_FAILED + 1, N_HTML };
static const struct box_line html_lines[N_HTML] = {
    [GOOD] = VERDICT("good", "M6 12.5l4 4 8-9", ""),
    [WARN] = VERDICT("warn", "M12 6v7M12 17h0", ""),
    [BAD] = VERDICT("bad", "M7 7l10 10M17 7L7 17", " open"),
    [FACT] = {"\n<p>", NULL, "</p>"},
    [CHECKS] = {"\n<p>", NULL,
                "</p><div class=\"wide\" role=\"group\" tabindex=\"0\" aria-label=\"All checks\"><table><caption>All "
                "checks of repro verify</caption><thead><tr><th scope=\"col\">state</th>"
                "<th scope=\"col\">check</th><th scope=\"col\">result</th></tr></thead><tbody>"},
    [FIRST_ROW + RP_CHECK_SKIPPED] = ROW("skipped", "skipped"),
    [FIRST_ROW + RP_CHECK_NOT_APPLICABLE] = ROW("skipped", "not applicable"),
    [FIRST_ROW + RP_CHECK_PASSED] = ROW("good", "passed"),
    [FIRST_ROW + RP_CHECK_NOTE] = ROW("note", "note"),
    [FIRST_ROW + RP_CHECK_WARNING] = ROW("note", "warning"),
    [FIRST_ROW + RP_CHECK_FAILED] = ROW("bad", "FAILED"),
    [END] = {"\n</tbody></table></div></details>", NULL, NULL},
};

enum { MD_BLANK, MD_VERDICT, MD_FACT, N_MARKDOWN };
static const struct box_line markdown_lines[N_MARKDOWN] = {
    /* as code spans, in which Markdown has no effect */
    [MD_BLANK] = {"\n>", NULL, NULL},
    [MD_VERDICT] = {"\n> **`", NULL, "`**"},
    [MD_FACT] = {"\n> - `", NULL, "`"},
};

static void put_line(struct rp_buf *out, const struct box_line *l, const char *text, const char *second)
{
    void (*write)(struct rp_buf *, const char *) =
        l >= markdown_lines && l < markdown_lines + N_MARKDOWN ? rp_md_code : rp_html_text;
    rp_buf_puts(out, l->before);
    if (!l->after)
        return;
    write(out, text);
    if (l->between) {
        rp_buf_puts(out, l->between);
        write(out, second);
    }
    rp_buf_puts(out, l->after);
}

static void write_fact(struct rp_buf *out, int markdown, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void write_fact(struct rp_buf *out, int markdown, const char *fmt, ...)
{
    char text[RP_HTML_LIMIT];
    RP_FORMAT_ARGS(text, fmt);
    put_line(out, markdown ? &markdown_lines[MD_FACT] : &html_lines[FACT], text, "");
}

static void put_ledger(struct rp_buf *out, int markdown, const struct rp_attempts_answer *is)
{
    write_fact(out, markdown,
               "in the given ledger of %lld line%s, this is attempt %lld of %lld at this recipe; that it ended in this "
               "bundle is %s",
               (long long)is->lines, rp_s(is->lines), (long long)is->attempt, (long long)is->attempts,
               is->recorded ? "recorded" : "not recorded");
    write_fact(
        out, markdown,
        "earlier attempts: %lld sealed, %lld failed, %lld interrupted, %lld without a recorded end; later attempts: "
        "%lld",
        (long long)is->sealed, (long long)is->failed, (long long)is->interrupted, (long long)is->open,
        (long long)is->later);
}

static void put_facts(struct rp_buf *out, int markdown, const struct rp_verification *v)
{
    const struct rp_build *build = rp_build_record();
    write_fact(out, markdown, "by repro %s, commit %s", build->version, build->commit);
    if (!rp_verdict_shows(v->verdict)) {
        write_fact(out, markdown, "%s: the contents of this bundle are not shown",
                   v->verdict == RP_VERDICT_FAILED ? "a check failed" : "nothing was checked");
        return;
    }
    if (*v->signer)
        write_fact(out, markdown, "the signer is '%s' in the trust store of the author", v->signer);
    else if (v->standing == RP_STANDING_OWN)
        write_fact(out, markdown, "signed by the author's own key");
    else if (v->standing == RP_STANDING_UNKNOWN)
        write_fact(out, markdown,
                   "the key is not in the trust store of the author: obtain the signer's fingerprint by other means");
    for (int64_t i = 0; v->signatures && i < v->signatures->row_n; i++) {
        const struct rp_countersigned_answer *row = &v->signatures->row[i];
        const int trusted = row->trusted == 1;
        write_fact(out, markdown, "%s, %s%s%s", rp_text_or_empty(row->text),
                   trusted ? "trusted as '" : "which is not trusted there", trusted ? rp_text_or_empty(row->name) : "",
                   trusted ? "'" : "");
    }
    for (int id = RP_LEVEL_computed; id < RP_LEVEL_COUNT; id++) {
        struct rp_level l = rp_level_of(v, (enum rp_level_id)id);
        write_fact(out, markdown, "%s: %s", l.name, l.text);
    }
    if (v->ledger)
        put_ledger(out, markdown, v->ledger);
    if (v->original)
        write_fact(out, markdown, "the original run was verified too, and the agreement of both was computed again");
}

/* Never folded. */
static void put_warnings(struct rp_buf *out, int markdown, const struct rp_verification *v)
{
    for (int k = 0; k < RP_CHECK_COUNT && rp_verdict_shows(v->verdict); k++)
        if (v->check[k].state == RP_CHECK_WARNING)
            write_fact(out, markdown, "warning of the check %s: %s", v->check[k].name, v->check[k].text);
}

static void put_checks(struct rp_buf *out, const struct rp_verification *v)
{
    const struct rp_check_counts n = rp_check_counts(v);
    char line[200];
    snprintf(line, sizeof line,
             "%d of %d applicable checks passed, %d with a note, %d with a warning, %d failed; %d not applicable, %d "
             "skipped",
             n.of[RP_CHECK_PASSED], n.applicable, n.of[RP_CHECK_NOTE], n.of[RP_CHECK_WARNING], n.of[RP_CHECK_FAILED],
             n.of[RP_CHECK_NOT_APPLICABLE], n.of[RP_CHECK_SKIPPED]);
    put_line(out, &html_lines[CHECKS], line, "");
    int ended = 0; /* by a failure after which nothing is checked: the last row */
    for (int i = 0; i < RP_CHECK_COUNT && !ended; i++) {
        const struct rp_check_result *r = &v->check[i];
        put_line(out, &html_lines[FIRST_ROW + (int)r->state], r->name, *r->text ? r->text : r->proves);
        ended = rp_check_severity(i) == RP_SEVERITY_FATAL && r->state == RP_CHECK_FAILED;
    }
    put_line(out, &html_lines[END], "", "");
}

void rp_box(struct rp_buf *out, const struct rp_shown_bundle *b, int n, int markdown)
{
    rp_buf_puts(out, box_open[markdown]);
    int number = 0; /* on the page, of those that are shown */
    for (int i = 0; i < n; i++) {
        const int clean = b[i].v->verdict == RP_VERDICT_VERIFIED && !rp_check_counts(b[i].v).of[RP_CHECK_WARNING];
        const int banner = b[i].v->verdict == RP_VERDICT_FAILED ? BAD : clean ? GOOD : WARN;
        RP_BUF line = {0};
        if (n > 1 && b[i].kept) /* what was signed names it, not the file */
            rp_buf_printf(&line, "%d. %.200s (%.12s): ", ++number, rp_page_recipe(&b[i].v->run->facts),
                          b[i].v->statement);
        else if (n > 1)
            rp_buf_printf(&line, "file %d of %d, not shown: ", i + 1, n);
        rp_verification_line(&line, b[i].v);
        if (markdown)
            put_line(out, &markdown_lines[MD_BLANK], "", "");
        put_line(out, markdown ? &markdown_lines[MD_VERDICT] : &html_lines[banner], rp_buf_text(&line), "");
        put_facts(out, markdown, b[i].v);
        if (!markdown)
            put_checks(out, b[i].v);
        put_warnings(out, markdown, b[i].v);
    }
    rp_buf_puts(out, box_close[markdown]);
}

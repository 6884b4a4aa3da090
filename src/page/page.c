#include "backend/backend.h"
#include "page/page.h"

#include "base/build.h"
#include "base/embed.h"
#include "base/hash.h"
#include "base/text.h"
#include "capture/value.h"
#include "page/section.h"

#include <stdio.h>
#include <string.h>

static void style_of(struct rp_buf *style, char digest[64])
{
    const struct rp_embed *e = rp_embed_find("src/page/page.css");
    unsigned char sha256[RP_SHA256_SIZE];
    RP_BUF text = {0};
    RP_BUG_IF(!e);
    rp_buf_add(style, e->data, e->size);
    rp_sha256_bytes(sha256, e->data, e->size);
    rp_base64(&text, sha256, sizeof sha256);
    snprintf(digest, 64, "%s", rp_buf_text(&text));
}

static void title(struct rp_buf *out, const struct rp_shown_bundle *b, int n)
{
    RP_BUF line = {0};
    if (n > 1) {
        rp_buf_printf(out, "%d bundles", n);
        return;
    }
    rp_verification_line(&line, b->v);
    rp_html_text(out, rp_buf_text(&line));
    if (b->kept) {
        rp_buf_puts(out, ": ");
        rp_html_text(out, json_string_value(json_object_get(b->v->run, "recipe_name")));
    }
}

/* Nothing is fetched, run, framed or sent: not even a script of this page's own. */
static void head(struct rp_buf *out, const struct rp_shown_bundle *b, int n)
{
    const struct rp_build *build = rp_build_record();
    RP_BUF style = {0};
    char digest[64];
    style_of(&style, digest);
    rp_buf_printf(out,
                  "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                  "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-%s'; script-src 'none'; "
                  "base-uri 'none'; form-action 'none'\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                  "<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n"
                  "<meta name=\"generator\" content=\"repro %s %s %s %s\">\n<title>",
                  digest, build->version, build->commit, build->dirty, RP_PAGE_FORMAT);
    title(out, b, n);
    rp_buf_printf(out, "</title>\n<style>%s</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#main\">Skip to the figures</a>\n",
                  rp_buf_text(&style));
}

static void contents(struct rp_buf *out, const struct rp_section *s)
{
    static const char *const parts[][2] = {
        {"agreement", "Agreement"},     {"steps", "Steps"},       {"loss", "Loss"},           {"device", "Device"},
        {"ceilings", "Ceilings"},       {"memory", "Memory"},     {"baselines", "Baselines"}, {"topology", "Topology"},
        {"environment", "Environment"}, {"settings", "Settings"}, {"attempts", "Attempts"},   {"signatures", "Signatures"},
        {"repeat", "Verify it"},
    };
    rp_buf_puts(out, "<nav aria-label=\"Sections\"><ul>");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (rp_section_is_there(s, parts[i][0]))
            rp_buf_printf(out, "<li><a href=\"#b%d-%s\">%s</a></li>", s->index, parts[i][0], parts[i][1]);
    rp_buf_puts(out, "</ul></nav>\n");
}

/* ---- several bundles ---- */

/* As the colour of the verdict says it too. */
static void overview_verdict(struct rp_buf *out, const struct rp_verification *v)
{
    RP_BUF line = {0};
    rp_verification_line(&line, v);
    rp_buf_printf(out, "<td class=\"why\"><b class=\"state %s\">",
                  v->verdict == RP_VERDICT_VERIFIED ? "good" : v->verdict == RP_VERDICT_FAILED ? "bad" : "note");
    rp_html_text(out, rp_buf_text(&line));
    rp_buf_puts(out, "</b>");
}

static void overview_row(struct rp_buf *out, const struct rp_shown_bundle *b, int index)
{
    struct rp_section s;
    if (!b->kept) {
        rp_buf_printf(out, "<tr><td><a href=\"#b%d\">", index);
        rp_html_text(out, b->name);
        rp_buf_puts(out, "</a></td>");
        overview_verdict(out, b->v);
        rp_buf_puts(out, "</td><td colspan=\"4\">nothing of it is shown</td></tr>\n");
        return;
    }
    rp_section_init(&s, out, index, b);
    rp_buf_printf(out, "<tr data-bundle=\"%s\"><td><a href=\"#b%d\">", s.digest, index);
    rp_run_figure(&s, "/recipe_name", "t");
    rp_buf_puts(out, "</a><span class=\"below when\">");
    rp_run_figure(&s, "/started_at", "t");
    rp_buf_puts(out, "</span></td>");
    overview_verdict(out, b->v);
    rp_buf_puts(out, "<span class=\"below\">signed by ");
    rp_html_text(out, b->v->fingerprint);
    rp_buf_puts(out, "</span></td><td class=\"r\">");
    rp_section_throughput(&s, 1);
    rp_buf_puts(out, "</td><td class=\"r\">");
    rp_section_interval(&s, "");
    rp_buf_puts(out, "</td><td>");
    rp_section_hardware(&s);
    rp_buf_puts(out, "<span class=\"below\">");
    rp_section_how(&s);
    rp_buf_puts(out, "</span>");
    rp_buf_puts(out, "</td><td class=\"r\">");
    rp_run_figure(&s, "/plan/batch", "d0");
    rp_buf_puts(out, "</td></tr>\n");
}

static void overview(struct rp_buf *out, const struct rp_shown_bundle *b, int n)
{
    rp_buf_printf(out, "<h1>%d bundles</h1>\n<p>Side by side as they are, which makes them no comparison: <code>repro compare</code> says "
                       "whether they can be compared.</p>\n",
                  n);
    rp_buf_puts(out, "<div class=\"overview\">");
    rp_table_open(out, "What each says", "recipe and start|verdict|#throughput|#95 % interval|device|#batch");
    for (int i = 0; i < n; i++)
        overview_row(out, &b[i], i + 1);
    rp_table_close(out);
    rp_buf_puts(out, "</div>\n");
}

/* A bundle that failed, among others. */
static void failed(struct rp_buf *out, const struct rp_shown_bundle *b, int index)
{
    rp_buf_printf(out, "<section class=\"bundle\" id=\"b%d\" aria-labelledby=\"b%d-title\"><h2 id=\"b%d-title\">", index, index, index);
    rp_html_text(out, b->name);
    rp_buf_puts(out, "</h2>\n");
    rp_section_verdict(out, b, index, 0);
    rp_buf_puts(out, "</section>\n");
}

static void one_of_many(struct rp_buf *out, const struct rp_shown_bundle *b, int index)
{
    struct rp_section s;
    if (!b->kept) {
        failed(out, b, index);
        return;
    }
    rp_section_init(&s, out, index, b);
    rp_section_bundle(&s, 2);
}

void rp_page_html(struct rp_buf *out, const struct rp_shown_bundle *b, int n)
{
    struct rp_section s;
    head(out, b, n);
    rp_buf_puts(out, "<header>\n");
    if (n == 1)
        rp_section_verdict(out, b, 0, 1);
    else
        overview(out, b, n);
    rp_buf_puts(out, "</header>\n");
    if (n == 1 && b->kept) {
        rp_section_init(&s, out, 0, b);
        contents(out, &s);
        rp_buf_puts(out, "<main id=\"main\">\n");
        rp_section_bundle(&s, 2);
    } else {
        rp_buf_puts(out, "<main id=\"main\">\n");
        if (n == 1)
            rp_buf_puts(out, "<p>There is nothing to show of a bundle that failed.</p>\n");
        for (int i = 0; n > 1 && i < n; i++)
            one_of_many(out, &b[i], i + 1);
    }
    rp_buf_puts(out, "</main>\n<footer><p>A rendering of signed records, made by <code>repro report</code>; no script, nothing fetched. "
                     "Every figure names its source: <code>repro verify BUNDLE --report THIS_PAGE</code> compares "
                     "them.</p></footer>\n</body>\n</html>\n");
}

/* Everything in it is checked before it gets there: a word of a list, a fingerprint, a time. */
void rp_page_signature_line(struct rp_buf *out, const json_t *row)
{
    rp_buf_printf(out, "> countersigned as %s by %s on %s, by a key that who made this file ",
                  json_string_value(json_object_get(row, "role")),
                  json_string_value(json_object_get(row, "fingerprint")), json_string_value(json_object_get(row, "at")));
}

static long long whole(const json_t *document, const char *pointer)
{
    return json_integer_value(rp_pointer(document, pointer));
}

/* Below the verdict: numbers and words of lists alone, so that nothing of a stranger becomes Markdown. */
static void standing(struct rp_buf *out, const struct rp_verification *v)
{
    size_t i;
    json_t *row;
    json_array_foreach(v->signatures, i, row) {
        rp_page_signature_line(out, row);
        rp_buf_puts(out, json_is_true(json_object_get(row, "trusted")) ? RP_STANDING_TRUSTED "\n" : "does not know\n");
    }
    if (rp_pointer(v->run, "/ledger/reason"))
        rp_buf_puts(out, ">\n> in no ledger: nobody can say how often it was tried\n");
    if (!rp_pointer(v->run, "/ledger/position"))
        return;
    rp_buf_printf(out, ">\n> line %lld of its signer's ledger; by that account %lld runs of this recipe were started before it",
                  whole(v->run, "/ledger/position"), whole(v->run, "/ledger/earlier"));
    if (v->ledger)
        rp_buf_printf(out, RP_STANDING_ATTEMPT "%lld of %lld in the ledger that was looked up, before it %lld sealed, %lld failed, %lld "
                                               "interrupted, %lld without an end",
                      whole(v->ledger, "/attempt"), whole(v->ledger, "/attempts"), whole(v->ledger, "/sealed"), whole(v->ledger, "/failed"),
                      whole(v->ledger, "/interrupted"), whole(v->ledger, "/open"));
    rp_buf_puts(out, "\n");
}

/* As code, in which Markdown does nothing, and without what the head is read by again. */
static void code(struct rp_buf *out, const char *text)
{
    char safe[101];
    rp_safe(safe, sizeof safe, text);
    for (char *p = safe; *p; p++)
        if (strchr("`;<>&", *p))
            *p = '?';
    rp_buf_printf(out, "`%s`", *safe ? safe : "unknown");
}

static void machine(struct rp_buf *out, const struct rp_shown_bundle *b)
{
    rp_buf_puts(out, ">\n> ran on ");
    code(out, rp_device_text((char[RP_DEVICE_TEXT]){0}, rp_pointer(b->v->run, "/device")));
    rp_buf_puts(out, ", begun ");
    code(out, json_string_value(rp_pointer(b->v->run, "/started_at")));
    rp_buf_puts(out, "\n");
}

/* The report that was sealed, and above it the verdict. */
void rp_page_markdown(struct rp_buf *out, const struct rp_shown_bundle *b, int n)
{
    for (int i = 0; i < n; i++) {
        RP_BUF line = {0};
        rp_verification_line(&line, b[i].v);
        rp_buf_printf(out, "%s> **%s**\n", i ? RP_BETWEEN_REPORTS : "", rp_buf_text(&line));
        if (!b[i].kept) {
            rp_buf_puts(out, ">\n> Nothing that this file says is shown, because nothing of it could be relied on. `repro verify` says "
                             "what failed.\n");
            continue;
        }
        const struct rp_member *report = rp_bundle_find(&b[i].kept->bundle, "report.md");
        rp_buf_printf(out, ">\n> signed by %s\n", b[i].v->fingerprint);
        standing(out, b[i].v);
        machine(out, &b[i]);
        rp_buf_puts(out, "\n");
        rp_buf_add(out, report->bytes.data, report->bytes.size);
    }
}

#include "backend/backend.h"
#include "page/page.h"

#include "base/build.h"
#include "base/embed.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"
#include "capture/value.h"
#include "page/box.h"
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
    const char *own = n == 1 ? rp_json_text_at(b->v->run, "recipe/title/value") : ""; /* null where the recipe has none */
    if (n == 1)
        rp_html_text(out, *own ? own : json_string_value(json_object_get(b->v->run, "recipe_name")));
    else
        n ? rp_buf_printf(out, "%d bundles", n) : rp_buf_puts(out, "Nothing to show");
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

static void overview_row(struct rp_buf *out, const struct rp_shown_bundle *b, int index)
{
    struct rp_section s;
    rp_section_init(&s, out, index, b);
    rp_buf_printf(out, "<tr data-bundle=\"%s\"><td><a href=\"#b%d\">", s.digest, index);
    rp_run_figure(&s, "/recipe_name", "t");
    rp_buf_puts(out, "</a><span class=\"below when\">");
    rp_run_figure(&s, "/started_at", "t");
    rp_buf_puts(out, "</span><span class=\"below\">signed by ");
    rp_html_text(out, b->v->fingerprint);
    rp_buf_puts(out, "</span></td><td class=\"r\">");
    rp_section_throughput(&s, 1);
    rp_buf_puts(out, "</td><td class=\"r\">");
    rp_section_interval(&s, "");
    rp_buf_puts(out, "</td><td>");
    rp_section_hardware(&s);
    rp_buf_puts(out, "<span class=\"below\">");
    rp_section_how(&s);
    rp_buf_puts(out, "</span></td><td class=\"r\">");
    rp_run_figure(&s, "/plan/batch", "d0");
    rp_buf_puts(out, "</td></tr>\n");
}

static void overview(struct rp_buf *out, const struct rp_shown_bundle *b, int n)
{
    rp_buf_puts(out, "<p>Side by side as they are, which makes them no comparison: <code>repro compare</code> says whether they can be "
                     "compared.</p>\n");
    rp_buf_puts(out, "<div class=\"overview\">");
    rp_table_open(out, "What each says", "recipe and start|#throughput|#95 % interval|device|#batch");
    for (int i = 0; i < n; i++)
        overview_row(out, &b[i], i + 1);
    rp_table_close(out);
    rp_buf_puts(out, "</div>\n");
}

/* Those that did not fail: nothing else of a page depends on how they were verified. */
static int kept_of(struct rp_shown_bundle kept[RP_PAGE_BUNDLES], const struct rp_shown_bundle *b, int n)
{
    int shown = 0;
    for (int i = 0; i < n; i++)
        if (b[i].kept)
            kept[shown++] = b[i];
    return shown;
}

void rp_page_html(struct rp_buf *out, const struct rp_shown_bundle *b, int n)
{
    struct rp_shown_bundle kept[RP_PAGE_BUNDLES];
    struct rp_section s;
    int shown = kept_of(kept, b, n);
    head(out, kept, shown);
    rp_buf_puts(out, shown == 1 ? "<header>\n<h1 id=\"b0-title\">" : "<header>\n<h1>");
    title(out, kept, shown);
    rp_buf_puts(out, "</h1>\n");
    rp_box(out, b, n, 0);
    if (shown > 1)
        overview(out, kept, shown);
    rp_buf_puts(out, "</header>\n");
    if (shown == 1) {
        rp_section_init(&s, out, 0, kept);
        contents(out, &s);
    }
    rp_buf_puts(out, "<main id=\"main\">\n");
    if (!shown)
        rp_buf_puts(out, "<p>Of a bundle that failed nothing is shown but its checks.</p>\n");
    for (int i = 0; i < shown; i++) {
        rp_section_init(&s, out, shown > 1 ? i + 1 : 0, &kept[i]);
        rp_section_bundle(&s);
    }
    rp_buf_puts(out, "</main>\n<footer><p>A rendering of signed records, made by <code>repro report</code>; no script, nothing fetched. "
                     "Every figure names its source: <code>repro verify BUNDLE --report THIS_PAGE</code> compares all but the box at the "
                     "top with the bundle.</p></footer>\n</body>\n</html>\n");
}

static long long whole(const json_t *document, const char *pointer)
{
    return json_integer_value(rp_pointer(document, pointer));
}

/* Numbers and words of lists alone, so that nothing of a stranger becomes Markdown. */
static void standing(struct rp_buf *out, const struct rp_verification *v)
{
    size_t i;
    json_t *row;
    json_array_foreach(v->signatures, i, row)
        rp_buf_printf(out, ">\n> countersigned as %s by %s on %s\n", json_string_value(json_object_get(row, "role")),
                      json_string_value(json_object_get(row, "fingerprint")), json_string_value(json_object_get(row, "at")));
    if (rp_pointer(v->run, "/ledger/reason"))
        rp_buf_puts(out, ">\n> in no ledger: nobody can say how often it was tried\n");
    if (rp_pointer(v->run, "/ledger/position"))
        rp_buf_printf(out, ">\n> line %lld of its signer's ledger; by that account %lld runs of this recipe were started before it\n",
                      whole(v->run, "/ledger/position"), whole(v->run, "/ledger/earlier"));
}

/* As code, in which Markdown does nothing. */
static void code(struct rp_buf *out, const char *text)
{
    char safe[101];
    rp_safe(safe, sizeof safe, text);
    for (char *p = safe; *p; p++)
        if (strchr("`;<>&", *p))
            *p = '?';
    rp_buf_printf(out, "`%s`", *safe ? safe : "unknown");
}

void rp_section_markdown(struct rp_section *s)
{
    const struct rp_buf *report = &rp_bundle_find(&s->b->kept->bundle, "report.md")->bytes;
    rp_buf_printf(s->out, RP_MARKDOWN_MARK "%s`, signed by %s\n", s->digest, s->b->v->fingerprint);
    standing(s->out, s->b->v);
    rp_buf_puts(s->out, ">\n> ran on ");
    code(s->out, rp_device_text((char[RP_DEVICE_TEXT]){0}, rp_pointer(s->run, "/device")));
    rp_buf_puts(s->out, ", begun ");
    code(s->out, json_string_value(rp_pointer(s->run, "/started_at")));
    rp_buf_puts(s->out, "\n\n");
    rp_buf_add(s->out, report->data, report->size);
}

/* The box, and below it each report that was sealed. */
void rp_page_markdown(struct rp_buf *out, const struct rp_shown_bundle *b, int n)
{
    struct rp_shown_bundle kept[RP_PAGE_BUNDLES];
    struct rp_section s;
    int shown = kept_of(kept, b, n);
    rp_box(out, b, n, 1);
    if (!shown)
        rp_buf_puts(out, "Nothing is shown of a bundle that failed; `repro verify` says what failed.\n");
    for (int i = 0; i < shown; i++) {
        rp_buf_puts(out, i ? "\n---\n\n" : "");
        rp_section_init(&s, out, i + 1, &kept[i]);
        rp_section_markdown(&s);
    }
}

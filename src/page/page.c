/* The whole page, and the report as Markdown. */
#include "page/page.h"

#include "backend/backend.h"
#include "base/build.h"
#include "base/embed.h"
#include "base/hash.h"
#include "base/json.h"
#include "compare/compare.h"
#include "page/box.h"
#include "page/overview.h"
#include "page/section.h"
#include "report/report.h"

#include <stdio.h>
#include <stdlib.h>

int rp_page_bundles_add(struct rp_page_bundles *all, const char *path, struct rp_verify_opts o, struct rp_err *err)
{
    int i = all->n++;
    o.keep = &all->kept[i];
    int failed = rp_verify(&all->v[i], path, &o, err) < 0;
    all->b[i] = (struct rp_shown_bundle){.name = path, .v = &all->v[i]};
    if (rp_verdict_shows(all->v[i].verdict))
        all->b[i].kept = &all->kept[i];
    return failed ? -1 : 0;
}

void rp_page_bundles_free(struct rp_page_bundles **all)
{
    for (int i = 0; i < (*all)->n; i++) {
        rp_verified_fini(&(*all)->kept[i]);
        rp_verification_fini(&(*all)->v[i]);
    }
    free(*all);
}

static void read_style(struct rp_buf *style, char digest[64])
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

static void put_title(struct rp_buf *out, const struct rp_shown_bundle *b, int n)
{
    const struct rp_facts *f = n == 1 ? &b->v->run->facts : NULL;
    const char *title = f ? rp_page_title(f) : NULL;
    if (f)
        rp_html_text(out, title ? title : f->recipe_name);
    else
        n ? rp_buf_printf(out, "%d bundles", n) : rp_buf_puts(out, "Nothing to show");
}

/* The policy forbids everything that would be fetched, run, framed or sent, also scripts of the page itself. */
static void put_head(struct rp_buf *out, const struct rp_shown_bundle *b, int n)
{
    const struct rp_build *build = rp_build_record();
    RP_BUF style = {0};
    char digest[64];
    read_style(&style, digest);
    rp_buf_printf(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-%s'; script-src "
        "'none'; base-uri 'none'; form-action 'none'\">\n<meta name=\"viewport\" content=\"width=device-width, "
        "initial-scale=1\">\n"
        "<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n"
        "<meta name=\"generator\" content=\"repro %s %s %s %s\">\n<title>",
        digest, build->version, build->commit, build->dirty, RP_PAGE_FORMAT);
    put_title(out, b, n);
    rp_buf_printf(
        out, "</title>\n<style>%s</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#main\">Skip to the figures</a>\n",
        rp_buf_text(&style));
}

/* The bundles that did not fail: the body depends on nothing else of their verification. */
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
    put_head(out, kept, shown);
    rp_buf_puts(out, shown == 1 ? "<header>\n<h1 id=\"b0-title\">" : "<header>\n<h1>");
    put_title(out, kept, shown);
    rp_buf_puts(out, "</h1>\n");
    int failed = 0; /* what failed stands before what did not */
    for (int i = 0; i < n; i++)
        failed |= b[i].v->verdict == RP_VERDICT_FAILED;
    if (failed)
        rp_box(out, b, n, 0);
    if (shown > 1)
        rp_overview(out, kept, shown);
    if (shown == 1) {
        rp_section_init(&s, out, 0, kept);
        rp_section_headline(&s);
    }
    if (!failed)
        rp_box(out, b, n, 0);
    rp_buf_puts(out, "</header>\n");
    if (shown == 1)
        rp_section_contents(&s);
    rp_buf_puts(out, "<main id=\"main\">\n");
    if (!shown)
        rp_buf_puts(out, "<p>Only the checks of a bundle that failed are shown.</p>\n");
    for (int i = 0; i < shown; i++) {
        rp_section_init(&s, out, shown > 1 ? i + 1 : 0, &kept[i]);
        rp_section_bundle(&s);
    }
    rp_buf_puts(
        out,
        "</main>\n<footer><p>A rendering of signed records, made by <code>repro report</code>: no scripts, no network "
        "requests. Every figure names its source, and <code>repro report</code> makes the same page again, "
        "except the box with the verdict.</p></footer>\n</body>\n</html>\n");
}

/* Signer, device and the report. */
static void put_markdown(struct rp_section *s)
{
    const struct rp_ledger_facts *ledger = &s->facts->ledger;
    char device[RP_DEVICE_TEXT], place[RP_PLACE_TEXT];
    const struct rp_countersigned_list *all = s->b->v->signatures;
    rp_buf_printf(s->out, "> statement SHA-256 `%s`, signed by %s\n", s->digest, s->b->v->fingerprint);
    for (int64_t i = 0; all && i < all->row_n; i++) /* values that verify restricts to a few characters */
        rp_buf_printf(s->out, ">\n> %s on %s\n", all->row[i].text, all->row[i].at);
    if (ledger->reason)
        rp_buf_puts(s->out, ">\n> not in a ledger: the number of earlier attempts is unknown\n");
    else
        rp_fill(s->out, RP_FILL_MD, s->run, RP_RUN,
                s->b->v->run->command
                    ? ">\n> line {/ledger/position d0} of its signer's ledger; attempts at the same words and inputs "
                      "before it, according to that ledger: {/ledger/earlier d0}\n"
                    : ">\n> line {/ledger/position d0} of its signer's ledger; runs of this recipe that were "
                      "started before it, according to that ledger: {/ledger/earlier d0}\n");
    if (ledger->position == 1)
        rp_buf_puts(s->out, ">\n> the ledger begins with this run: runs before it are not recorded\n");
    rp_buf_puts(s->out, ">\n> ran on `");
    if (s->b->v->run->command) {
        rp_md_code(s->out, rp_run_machine_text(place, &s->b->kept->run));
    } else {
        rp_md_code(s->out, rp_rank_device_text(device, s->facts, s->rank));
        rp_buf_puts(s->out, "`: `");
        rp_md_code(s->out, rp_run_place_text(place, &s->b->kept->run));
    }
    rp_buf_puts(s->out, "`, started at `");
    rp_md_code(s->out, s->facts->started_at);
    rp_buf_puts(s->out, "`\n\n");
    rp_report_md(s->out, &s->b->kept->run);
}

/* The box, and below it the report of each bundle. */
void rp_page_markdown(struct rp_buf *out, const struct rp_shown_bundle *b, int n)
{
    struct rp_shown_bundle kept[RP_PAGE_BUNDLES];
    struct rp_section s;
    int shown = kept_of(kept, b, n);
    rp_box(out, b, n, 1);
    if (!shown)
        rp_buf_puts(out, "Nothing is shown of a bundle that failed; `repro verify` lists the failed checks.\n");
    RP_ROWS rows = {0};
    for (int i = 0; i < shown; i++)
        rp_overview_row(&rows, &kept[i]);
    rp_overview_fleet(out, &rows, RP_DOC_MD);
    for (int i = 0; i < shown; i++) {
        rp_buf_puts(out, i ? "\n---\n\n" : "");
        rp_section_init(&s, out, i + 1, &kept[i]);
        put_markdown(&s);
    }
}

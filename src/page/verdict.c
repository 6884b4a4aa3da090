/* The verdict: the very line of `repro verify`, who signed, and every check with what it found. Of a bundle that failed, all there is. */
#include "page/section.h"

#include <stdio.h>
#include <string.h>

static const char *const state_classes[] = {"skipped", "good", "note", "note", "bad"};

static const char *class_of(const struct rp_verification *v)
{
    static const char *const classes[] = {"bad", "warn", "good", "warn"};
    const char *status = json_string_value(json_object_get(v->run, "status"));
    return v->verdict == RP_VERDICT_VERIFIED && status && strcmp(status, "complete") != 0 ? "warn" : classes[v->verdict];
}

/* Shapes besides colours, so that neither is needed to tell them apart. */
static const char *sign_of(const char *class)
{
    return strcmp(class, "good") == 0 ? "<path d=\"M6 12.5l4 4 8-9\"/>" : strcmp(class, "bad") == 0 ? "<path d=\"M7 7l10 10M17 7L7 17\"/>"
                                                                                              : "<path d=\"M12 6v7M12 17h0\"/>";
}

static void signer(struct rp_buf *out, const struct rp_verification *v)
{
    if (v->verdict == RP_VERDICT_FAILED) {
        rp_buf_puts(out, "<p>Something in this file is not what it claims to be. Nothing that it says is shown here, because nothing of it "
                         "could be relied on; the checks below say what failed.</p>\n");
        return;
    }
    rp_buf_puts(out, "<p class=\"signer\">signed by <code>");
    rp_html_text(out, v->fingerprint);
    rp_buf_puts(out, "</code>");
    if (*v->signer) {
        rp_buf_puts(out, " (<bdi>");
        rp_html_text(out, v->signer);
        rp_buf_puts(out, "</bdi> in the trust store of who made this page)");
    }
    rp_buf_puts(out, v->verdict == RP_VERDICT_UNKNOWN_KEY
                         ? ". Whose key that is, is not known here: ask the signer for this fingerprint by other means.</p>\n"
                         : "</p>\n");
}

static void checks(struct rp_buf *out, const struct rp_verification *v, int index)
{
    int count[RP_CHECK_FAILED + 1] = {0};
    for (int i = 0; i < RP_CHECK_COUNT; i++)
        count[v->check[i].state]++;
    rp_buf_printf(out, "<details%s id=\"b%d-checks\"><summary>%d checks: %d passed, %d with a note, %d suspicious, %d skipped, %d "
                       "failed</summary>\n",
                  count[RP_CHECK_FAILED] ? " open" : "", index, RP_CHECK_COUNT, count[RP_CHECK_PASSED], count[RP_CHECK_NOTE],
                  count[RP_CHECK_WARNING], count[RP_CHECK_SKIPPED], count[RP_CHECK_FAILED]);
    rp_table_open(out, "Every check, as repro verify prints it", "state|check|found");
    for (int i = 0; i < RP_CHECK_COUNT; i++) {
        const struct rp_check_result *r = &v->check[i];
        rp_buf_printf(out, "<tr><td class=\"state %s\">%s</td><th scope=\"row\">", state_classes[r->state],
                      r->state == RP_CHECK_FAILED ? "FAILED" : rp_check_state_name(r->state));
        rp_html_text(out, r->name);
        rp_buf_puts(out, "</th><td>");
        rp_html_text(out, *r->text ? r->text : r->proves);
        rp_buf_puts(out, "</td></tr>\n");
    }
    rp_table_close(out);
    rp_buf_puts(out, "</details>\n");
}

void rp_section_verdict(struct rp_buf *out, const struct rp_shown_bundle *b, int index, int alone)
{
    const char *class = class_of(b->v);
    int level = alone ? 1 : 3;
    RP_BUF line = {0};
    rp_verification_line(&line, b->v);
    rp_buf_printf(out, "<div class=\"verdict %s\"><svg width=\"28\" height=\"28\" viewBox=\"0 0 24 24\" aria-hidden=\"true\"><circle "
                       "cx=\"12\" cy=\"12\" r=\"11\"/>%s</svg><h%d id=\"b%d-verdict\" data-verdict=\"%d\">",
                  class, sign_of(class), level, index, b->v->verdict);
    rp_html_text(out, rp_buf_text(&line));
    rp_buf_printf(out, "</h%d>\n", level);
    signer(out, b->v);
    rp_buf_puts(out, "</div>\n");
    checks(out, b->v, index);
}

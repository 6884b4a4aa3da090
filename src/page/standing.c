/* Where a run stands: among the attempts of its signer, beside the run that it repeats, and with those who signed it besides:
 * as the bundle says it. What a ledger, the first run and trusted keys add depends on who looks, and stands in the box. */
#include "page/section.h"

#include "base/json.h"
#include "capture/compare.h"

#include <stdio.h>
#include <string.h>

#define DIFFERENCES_MAX 100

int rp_section_is_there(const struct rp_section *s, const char *id)
{
    static const char *const of_run[][2] = {{"agreement", "agreement"}, {"attempts", "ledger"}, {"device", "samples"}};
    for (size_t i = 0; i < sizeof of_run / sizeof *of_run; i++)
        if (strcmp(id, of_run[i][0]) == 0)
            return json_is_object(json_object_get(s->run, of_run[i][1]));
    return strcmp(id, "signatures") != 0 || json_array_size(s->b->v->signatures) > 0;
}

/* ---- the run that it repeats ---- */

static void first_difference(struct rp_section *s)
{
    static const char *const parts[][2] = {{"step ", "step"}, {", ", "quantity"}, {": first ", "first"}, {", here ", "here"}};
    char pointer[64];
    if (!json_is_object(rp_pointer(s->run, "/agreement/bits/first_difference")))
        return;
    rp_buf_puts(s->out, "<tr><th scope=\"row\">first difference</th><td>");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(pointer, sizeof pointer, "/agreement/bits/first_difference/%s", parts[i][1]);
        rp_buf_puts(s->out, parts[i][0]);
        rp_run_figure(s, pointer, "t");
    }
    rp_buf_puts(s->out, "</td></tr>\n");
}

static void ratio(struct rp_section *s)
{
    rp_buf_puts(s->out, "<tr><th scope=\"row\">throughput here / first</th><td>");
    rp_run_figure(s, "/agreement/throughput/ratio", "d4");
    if (json_array_size(rp_pointer(s->run, "/agreement/throughput/interval")) == 2) {
        rp_buf_puts(s->out, ", 95 % interval ");
        rp_run_figure(s, "/agreement/throughput/interval/0", "d4");
        rp_buf_puts(s->out, " to ");
        rp_run_figure(s, "/agreement/throughput/interval/1", "d4");
    }
    rp_buf_puts(s->out, "</td></tr>\n");
}

static void side(struct rp_section *s, const char *list, size_t i, const char *which, const char *form)
{
    char pointer[64];
    snprintf(pointer, sizeof pointer, "/agreement/%s/%zu/%s", list, i, which);
    const json_t *v = rp_pointer(s->run, pointer), *is = *form == 'u' ? json_object_get(v, "value") : v;
    rp_buf_puts(s->out, "<td>");
    if (json_is_string(is) || json_is_number(is) || json_is_boolean(is) || json_array_size(is))
        rp_run_figure(s, pointer, form);
    else
        rp_buf_puts(s->out, *form == 'u' ? "not known" : "not set");
    rp_buf_puts(s->out, "</td>");
}

static void settings(struct rp_section *s)
{
    const json_t *list = rp_pointer(s->run, "/agreement/settings");
    size_t n = json_array_size(list);
    for (size_t i = 0; i < n && i < DIFFERENCES_MAX; i++) {
        if (i == 0)
            rp_table_open(s->out, "Set otherwise than in the first run", "key|first|here");
        rp_buf_puts(s->out, "<tr><th scope=\"row\"><code>");
        rp_html_text(s->out, json_string_value(json_object_get(json_array_get(list, i), "key")));
        rp_buf_puts(s->out, "</code></th>");
        side(s, "settings", i, "first", "t");
        side(s, "settings", i, "here", "t");
        rp_buf_puts(s->out, "</tr>\n");
    }
    if (n)
        rp_table_close(s->out);
}

static void machines(struct rp_section *s)
{
    const json_t *list = rp_pointer(s->run, "/agreement/environment");
    size_t shown = 0, important = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *d = json_array_get(list, i);
        if (!rp_capture_important(d) || important++ >= DIFFERENCES_MAX)
            continue;
        if (!shown++)
            rp_table_open(s->out, "What differs between the machines and is likely to move throughput", "field|impact|first|here");
        rp_buf_puts(s->out, "<tr><th scope=\"row\">");
        rp_html_text(s->out, json_string_value(json_object_get(d, "field")));
        rp_buf_printf(s->out, "</th><td>%s</td>", json_string_value(json_object_get(d, "impact")));
        side(s, "environment", i, "first", "u");
        side(s, "environment", i, "here", "u");
        rp_buf_puts(s->out, "</tr>\n");
    }
    if (shown)
        rp_table_close(s->out);
    rp_buf_printf(s->out, "<p class=\"note\">%zu of the %zu captured values that differ before the two runs are of high or medium "
                          "impact%s.</p>\n",
                  important, json_array_size(list), important > shown ? "; the first of them are listed" : "");
}

void rp_section_agreement(struct rp_section *s)
{
    if (!rp_section_is_there(s, "agreement"))
        return;
    rp_section_open(s, "agreement", "Agreement with the run that it repeats");
    rp_buf_puts(s->out, "<p>With the same settings and data it repeats the run in ");
    rp_run_figure(s, "/replicates/bundle", "t");
    rp_buf_puts(s->out, ", whose statement has SHA-256 <code>");
    rp_run_figure(s, "/replicates/statement", "t");
    rp_buf_puts(s->out, "</code> and was signed by <code>");
    rp_run_figure(s, "/replicates/signer", "t");
    rp_buf_puts(s->out, "</code>. What it says of that run is its own account: <code>repro verify BUNDLE --original FIRST</code> "
                        "computes it again from both.</p>\n");
    rp_table_open(s->out, "The two runs", "what|value");
    rp_buf_puts(s->out, "<tr><th scope=\"row\">bits</th><td><b>");
    rp_run_figure(s, "/agreement/bits/equal", "e");
    rp_buf_puts(s->out, "</b> over ");
    rp_run_figure(s, "/agreement/bits/steps", "d0");
    rp_buf_puts(s->out, " steps and ");
    rp_run_figure(s, "/agreement/bits/roots", "d0");
    rp_buf_puts(s->out, " state roots</td></tr>\n");
    first_difference(s);
    rp_run_row(s, "throughput here", "/agreement/throughput/here", "d3", "/agreement/throughput/unit");
    rp_run_row(s, "throughput of the first", "/agreement/throughput/first", "d3", "/agreement/throughput/unit");
    ratio(s);
    rp_table_close(s->out);
    settings(s);
    machines(s);
    rp_buf_puts(s->out, "<p class=\"note\">Interval: ");
    rp_run_figure(s, "/agreement/throughput/method", "t");
    rp_buf_puts(s->out, ".</p>\n");
    rp_section_close(s);
}

/* ---- the attempts of its signer ---- */

void rp_section_attempts(struct rp_section *s)
{
    if (!rp_section_is_there(s, "attempts"))
        return;
    rp_section_open(s, "attempts", "Attempts");
    if (rp_pointer(s->run, "/ledger/reason")) {
        rp_buf_puts(s->out, "<p>This run stands in no ledger, so that nobody can say how often it was tried: ");
        rp_run_figure(s, "/ledger/reason", "t");
        rp_buf_puts(s->out, ".</p>\n");
        rp_section_close(s);
        return;
    }
    rp_buf_puts(s->out, "<p>It was started in line ");
    rp_run_figure(s, "/ledger/position", "d0");
    rp_buf_puts(s->out, " of its signer&#39;s ledger, the line with digest <code>");
    rp_run_figure(s, "/ledger/head", "t");
    rp_buf_puts(s->out, "</code>. By the signer&#39;s account, runs of this recipe that were started before it: <b>");
    rp_run_figure(s, "/ledger/earlier", "d0");
    rp_buf_puts(s->out, "</b>.</p>\n<p>The ledger itself is not in the bundle. Ask the signer for it: <code>repro verify BUNDLE --ledger "
                        "FILE</code> finds the line and counts how the other attempts ended.</p>\n");
    rp_section_close(s);
}

/* ---- those who signed besides ---- */

static void signature_figure(struct rp_section *s, size_t i, const char *key, const char *form)
{
    char pointer[64];
    snprintf(pointer, sizeof pointer, "/%zu/%s", i, key);
    rp_figure(s->out, s->b->v->signatures, RP_OF_SIGNATURES, pointer, form);
}

void rp_section_signatures(struct rp_section *s)
{
    size_t i;
    json_t *row;
    if (!rp_section_is_there(s, "signatures"))
        return;
    rp_section_open(s, "signatures", "Who else signed");
    rp_table_open(s->out, "Each signature holds; the role is what its signer calls it",
                  "role and time|key and note");
    json_array_foreach(s->b->v->signatures, i, row) {
        const char *note = json_string_value(json_object_get(row, "note"));
        rp_buf_puts(s->out, "<tr><th scope=\"row\">");
        signature_figure(s, i, "role", "t");
        rp_buf_puts(s->out, "<span class=\"below when\">");
        signature_figure(s, i, "at", "t");
        rp_buf_puts(s->out, "</span></th><td><code>");
        rp_html_text(s->out, json_string_value(json_object_get(row, "fingerprint")));
        rp_buf_puts(s->out, "</code>");
        if (note && *note) {
            rp_buf_puts(s->out, "<span class=\"below\">");
            signature_figure(s, i, "note", "q");
            rp_buf_puts(s->out, "</span>");
        }
        rp_buf_puts(s->out, "</td></tr>\n");
    }
    rp_table_close(s->out);
    rp_section_close(s);
}

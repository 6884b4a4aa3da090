/* Published results of the same model next to this run, each with the reasons why
 * the two are not the same measurement. */
#include "page/section.h"

#include "base/json.h"
#include "base/text.h"
#include "compare/compare.h"

#include <math.h>
#include <string.h>

#define SHOWN_MAX 24

/* Confounders by name: first those that differ, then those that are unknown. */
static void put_confounders(struct rp_buf *out, const struct rp_pair *pair)
{
    static const char *const states[] = {"differs", "unknown"}, *const words[] = {"differs in: ", "unknown: "};
    for (int k = 0; k < 2; k++) {
        int n = 0;
        for (int64_t i = 0; i < pair->confounders_n; i++) {
            if (strcmp(pair->confounders[i].state, states[k]) != 0)
                continue;
            rp_buf_puts(out, n++ ? ", " : words[k]);
            rp_html_text(out, pair->confounders[i].name);
        }
        rp_buf_puts(out, n && k == 0 ? "<br>" : "");
    }
}

/* The common axis of all rows: whole decades. */
struct decades {
    double low, high; /* of log10 */
};

static struct decades decades_of(const struct rp_rows *rows, int shown)
{
    struct decades d = {INFINITY, -INFINITY};
    for (int i = 0; i < shown; i++)
        if (rows->row[i].throughput > 0) {
            d.low = fmin(d.low, floor(log10(rows->row[i].throughput)));
            d.high = fmax(d.high, ceil(log10(rows->row[i].throughput)));
        }
    d.high = fmax(d.high, d.low + 1);
    return d;
}

static void put_bar(struct rp_buf *out, double value, const struct decades *d, const char *class)
{
    char text[40];
    rp_buf_puts(
        out,
        "<td class=\"lane\"><svg width=\"100%\" height=\"14\" viewBox=\"0 0 1000 14\" preserveAspectRatio=\"none\" "
        "aria-hidden=\"true\"><title>");
    rp_put_grouped(out, RP_FORMAT(text, "%.6g", value));
    rp_buf_printf(out, "</title><rect class=\"%s\" width=\"%.1f\" height=\"14\"/><path class=\"grid\" d=\"", class,
                  fmax((log10(value) - d->low) / (d->high - d->low) * 1000, 1));
    for (double at = d->low; at <= d->high; at++)
        rp_buf_printf(out, "M%.1f 0V14", (at - d->low) / (d->high - d->low) * 1000);
    rp_buf_puts(out, "\"/></svg></td>");
}

static void put_name(struct rp_buf *out, const struct rp_result *row)
{
    rp_html_text(out, row->framework ? row->framework : "unknown");
    if (row->source.note) {
        rp_buf_puts(out, ", ");
        rp_html_text(out, row->source.note);
    }
}

/* The device, the batch size, and the line of the published table. */
static void put_details(struct rp_buf *out, const struct rp_result *row)
{
    char batch[64];
    rp_buf_puts(out, "<span class=\"below\">");
    rp_html_text(out, row->device_model ? row->device_model : "device unknown");
    rp_result_get(batch, sizeof batch, row, "batch_per_device");
    rp_buf_printf(out, ", batch size %s", *batch ? batch : "unknown");
    if (row->source.kind != RP_RESULT_BUNDLE && row->source.file) {
        rp_buf_puts(out, ", ");
        rp_html_text(out, rp_base_name(row->source.file));
        rp_buf_printf(out, ":%lld", (long long)row->source.line);
    }
    rp_buf_puts(out, "</span></th><td class=\"r\">");
}

static void put_results(struct rp_section *s, const struct rp_rows *rows, const struct rp_comparison *c)
{
    const int shown = rows->n < SHOWN_MAX ? rows->n : SHOWN_MAX;
    const struct decades d = decades_of(rows, shown);
    RP_BUF columns = {0};
    char text[40];
    rp_buf_puts(&columns, "framework|#throughput|log axis, ");
    rp_put_grouped(&columns, RP_FORMAT(text, "%.0f to %.0f", pow(10, d.low), pow(10, d.high)));
    rp_buf_puts(&columns, "|confounders");
    rp_buf_puts(s->out, "<div class=\"published\">");
    rp_html_table(s->out,
                  "One device, the same model and precision, on a logarithmic axis; published figures are unsigned",
                  rp_buf_text(&columns));
    for (int i = 0; i < shown; i++) {
        const struct rp_result *row = &rows->row[i];
        rp_buf_puts(s->out, "<tr><th scope=\"row\">");
        if (i)
            put_name(s->out, row);
        else
            rp_buf_puts(s->out, "this run");
        put_details(s->out, row);
        if (i)
            rp_put_grouped(s->out, RP_FORMAT(text, "%.6g", row->throughput));
        else
            rp_section_fill(s,
                            "{/results/throughput/value d3} <span class=\"unit\">{/results/throughput/unit t}</span>");
        rp_buf_puts(s->out, "</td>");
        put_bar(s->out, row->throughput, &d, i ? "c1" : "c0");
        rp_buf_puts(s->out, "<td class=\"why\">");
        if (i)
            put_confounders(s->out, &c->pairs[i - 1]);
        rp_buf_puts(s->out, "</td></tr>\n");
    }
    rp_html_table_end(s->out);
    rp_buf_puts(s->out, "</div>\n");
}

void rp_section_baselines(struct rp_section *s)
{
    static const char *const tables[] = {"dlperf_v100", "oneflow_v100_2020-08", "published_other"};
    RP_ROWS rows = {0};
    struct rp_result_opts o = {0};
    struct rp_err err;
    enum rp_comparable verdict;
    const struct rp_result *mine = rp_rows_add_verified(&rows, s->b->v, s->b->kept);
    RP_FREE char *model = rp_strdup(mine->model ? mine->model : "");
    const int mixed = rp_is_mixed(rp_recipe_numerics(&s->b->kept->run.recipe));
    for (size_t i = 0; *model && i < sizeof tables / sizeof *tables; i++) {
        RP_FREE char *what =
            rp_asprintf("published:%s#model=%s,precision=%s,devices=1", tables[i], model, mixed ? "amp" : "fp32");
        (void)!rp_rows_load(&rows, what, &o, &err); /* a table without such results adds none */
    }
    RP_COMPARISON c = {0};
    if (rows.n > 1 && isfinite(rows.row[0].throughput) && rp_compare(&c, &rows, &verdict, &err) == 0) {
        put_results(s, &rows, &c);
        rp_buf_puts(s->out, "<p class=\"note\">File names and lines refer to results/published. The bars alone are not "
                            "a comparison: <code>repro compare BUNDLE published:dlperf_v100</code> gives ratios, and "
                            "each confounder with both values and the reason why it matters.</p>\n");
    } else {
        rp_buf_printf(s->out,
                      "<p>No evidence: the embedded tables have no results of this model on one device in %s.</p>\n",
                      mixed ? "mixed precision" : "fp32");
    }
}

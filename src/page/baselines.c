/* What others published of the same model, beside this run: each figure with what keeps the two from being the same measurement. */
#include "page/section.h"

#include "base/json.h"
#include "compare/compare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SHOWN_MAX 24

/* Confounders by name, those that differ before those that a report does not say. */
static void confounders(struct rp_buf *out, const json_t *pair)
{
    static const char *const states[] = {"differs", "unknown"}, *const words[] = {"differs in: ", "not known: "};
    for (int k = 0; k < 2; k++) {
        size_t i;
        json_t *c;
        int n = 0;
        json_array_foreach(json_object_get(pair, "confounders"), i, c) {
            const char *state = json_string_value(json_object_get(c, "state"));
            if (!state || strcmp(state, states[k]) != 0)
                continue;
            rp_buf_puts(out, n++ ? ", " : words[k]);
            rp_html_text(out, json_string_value(json_object_get(c, "name")));
        }
        rp_buf_puts(out, n && k == 0 ? "<br>" : "");
    }
}

static void bar(struct rp_buf *out, double value, double most, const char *class)
{
    rp_buf_printf(out, "<td class=\"lane\"><svg width=\"100%%\" height=\"14\" viewBox=\"0 0 1000 14\" preserveAspectRatio=\"none\" "
                       "aria-hidden=\"true\"><rect class=\"%s\" width=\"%.1f\" height=\"14\"/></svg></td>",
                  class, fmax(value / most * 1000, 1));
}

static void name(struct rp_buf *out, const struct rp_row *row)
{
    rp_html_text(out, row->framework ? row->framework : "unknown");
    if (row->source.note) {
        rp_buf_puts(out, ", ");
        rp_html_text(out, row->source.note);
    }
}

/* On what, with which batch size, and where that stands. */
static void below(struct rp_buf *out, const struct rp_row *row)
{
    char batch[64];
    rp_buf_puts(out, "<span class=\"below\">");
    rp_html_text(out, row->device_model ? row->device_model : "device unknown");
    rp_row_get(batch, sizeof batch, row, "batch_per_device");
    rp_buf_printf(out, ", batch size %s", *batch ? batch : "unknown");
    if (row->source.kind != RP_ROW_BUNDLE && row->source.file) {
        rp_buf_puts(out, ", ");
        const char *slash = strrchr(row->source.file, '/');
        rp_html_text(out, slash ? slash + 1 : row->source.file);
        rp_buf_printf(out, ":%lld", (long long)row->source.line);
    }
    rp_buf_puts(out, "</span></th><td class=\"r\">");
}

static void table(struct rp_section *s, const struct rp_rows *rows, const json_t *compared)
{
    double most = 0;
    int shown = rows->n < SHOWN_MAX ? rows->n : SHOWN_MAX;
    for (int i = 0; i < shown; i++)
        most = fmax(most, rows->row[i].throughput);
    rp_buf_puts(s->out, "<div class=\"published\">");
    rp_table_open(s->out, "One device, the same model and precision; nobody signed the figures of others",
                  "by|#throughput|beside each other|what keeps it from being the same");
    for (int i = 0; i < shown; i++) {
        const struct rp_row *row = &rows->row[i];
        rp_buf_puts(s->out, "<tr><th scope=\"row\">");
        if (i)
            name(s->out, row);
        else
            rp_buf_puts(s->out, "this run");
        below(s->out, row);
        if (i)
            rp_buf_printf(s->out, "%.6g", row->throughput);
        else
            rp_section_throughput(s, 1);
        rp_buf_puts(s->out, "</td>");
        bar(s->out, row->throughput, most, i ? "c1" : "c0");
        rp_buf_puts(s->out, "<td class=\"why\">");
        if (i)
            confounders(s->out, json_array_get(json_object_get(compared, "pairs"), (size_t)i - 1));
        rp_buf_puts(s->out, "</td></tr>\n");
    }
    rp_table_close(s->out);
    rp_buf_puts(s->out, "</div>\n");
}

void rp_section_baselines(struct rp_section *s)
{
    static const char *const tables[] = {"dlperf_v100", "oneflow_v100_2020-08", "published_other"};
    struct rp_rows rows = {0};
    struct rp_row_opts o = {0};
    struct rp_err err;
    enum rp_comparable verdict;
    const struct rp_row *mine = rp_rows_add_verified(&rows, s->b->v, s->b->kept);
    RP_FREE char *model = rp_strdup(mine->model ? mine->model : "");
    for (size_t i = 0; *model && i < sizeof tables / sizeof *tables; i++) {
        RP_FREE char *what = rp_asprintf("published:%s#model=%s,precision=fp32,devices=1", tables[i], model);
        (void)!rp_rows_load(&rows, what, &o, &err); /* none fits: then there are none of that table */
    }
    rp_section_open(s, "baselines", "What others published");
    RP_JSON *compared = rows.n > 1 && isfinite(rows.row[0].throughput) ? rp_compare(&rows, &verdict, &err) : NULL;
    if (compared) {
        table(s, &rows, compared);
        rp_buf_puts(s->out, "<p class=\"note\">Tables and lines are those of results/published. Side by side is no comparison: <code>repro "
                            "compare BUNDLE published:dlperf_v100</code> gives ratios, each confounder with both values, and why it "
                            "matters.</p>\n");
    } else {
        rp_buf_puts(s->out, "<p>No evidence: of this model on one device in fp32 the tables inside this program have nothing.</p>\n");
    }
    rp_section_close(s);
    rp_rows_fini(&rows);
}

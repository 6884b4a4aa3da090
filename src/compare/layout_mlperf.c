/* A summary like that of MLPerf's training results. Its figure is the time to a quality target: what was measured for some steps has
 * none. */
#include "compare/layout.h"

#include "capture/value.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void count_cell(struct rp_doc *d, int64_t n)
{
    if (n < 0)
        rp_doc_text(d, NULL, RP_NO_EVIDENCE);
    else
        rp_doc_cell(d, "%lld", (long long)n);
}

static void known_cell(struct rp_doc *d, const struct rp_row *row, const char *path)
{
    char text[32];
    double number;
    const json_t *probes = json_object_get(row->environment, "probes");
    const char *known = rp_known_text(probes, path);
    if (known)
        rp_doc_text(d, known, RP_NO_EVIDENCE);
    else if (rp_known_number(probes, path, &number) == 0)
        rp_doc_cell(d, "%s", (rp_show_number(text, number, NULL), text));
    else
        rp_doc_text(d, NULL, RP_NO_EVIDENCE);
}

void rp_layout_mlperf(struct rp_doc *d, const struct rp_rows *rows)
{
    static const char *const names[] = {"submitter", "system", "nodes", "processor", "sockets", "accelerator", "accelerators", "software",
                                        "benchmark", "precision", "global batch", "time to train", "throughput", "unit", "evidence"};
    rp_doc_heading(d, "Summary in the manner of MLPerf training results");
    rp_layout_footnote(d, rows);
    rp_doc_line(d, "None of this is an MLPerf result. Those are minutes to a quality target, reviewed by peers; a throughput over some "
                   "steps does not say how long that takes.");
    rp_doc_table(d);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        rp_doc_column(d, i == 2 || i == 4 || i == 6 || i == 10 || i == 12, "%s", names[i]);
    for (int i = 0; i < rows->n; i++) {
        const struct rp_row *row = &rows->row[i];
        int on_gpus = row->gpus_per_node != 0;
        rp_doc_text(d, row->source.signed_by, "unsigned");
        known_cell(d, row, "distribution.name");
        count_cell(d, row->nodes);
        known_cell(d, row, "cpu.model_name");
        known_cell(d, row, "cpu.sockets");
        rp_doc_text(d, on_gpus ? row->device_model : "none", RP_NO_EVIDENCE);
        count_cell(d, on_gpus ? row->devices : 0);
        rp_doc_text(d, row->framework, RP_NO_EVIDENCE);
        rp_doc_text(d, row->model, RP_NO_EVIDENCE);
        rp_doc_text(d, row->precision, RP_NO_EVIDENCE);
        count_cell(d, row->global_batch);
        rp_doc_text(d, NULL, RP_NO_EVIDENCE);
        rp_layout_throughput(d, row);
        rp_doc_text(d, row->unit, RP_NO_EVIDENCE);
        rp_layout_evidence(d, row);
    }
}

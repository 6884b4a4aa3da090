/* A summary like that of MLPerf's training results. MLPerf's figure is the time to a quality target, which a run of some steps does not
 * have. */
#include "compare/layout.h"

#include "capture/value.h"
#include "report/figure.h"

static void put_captured(struct rp_doc *d, const struct rp_result *row, const char *path)
{
    RP_BUF text = {0};
    int known = rp_form(&text, rp_value_at(json_object_get(row->environment, "probes"), path), "u") == 0;
    rp_doc_text(d, known ? text.data : NULL, RP_NO_EVIDENCE);
}

void rp_layout_mlperf(struct rp_doc *d, const struct rp_rows *rows)
{
    rp_doc_heading(d, "Summary in the manner of MLPerf training results");
    rp_layout_footnote(d, rows);
    rp_doc_line(d,
                "These are not MLPerf results. Those are minutes to a quality target, reviewed by peers; a throughput over some steps does "
                "not show how long that takes.");
    rp_doc_table(d, "submitter|system|#nodes|processor|#sockets|accelerator|#accelerators|software|benchmark|precision|#global batch|"
                    "time to train|#throughput|unit|evidence");
    for (int i = 0; i < rows->n; i++) {
        const struct rp_result *row = &rows->row[i];
        int on_gpus = row->gpus_per_node != 0;
        rp_doc_text(d, row->source.signed_by, "unsigned");
        put_captured(d, row, "distribution.name");
        rp_result_cells(d, row, "nodes", RP_NO_EVIDENCE);
        put_captured(d, row, "cpu.model_name");
        put_captured(d, row, "cpu.sockets");
        if (on_gpus) {
            rp_result_cells(d, row, "device_model devices", RP_NO_EVIDENCE);
        } else {
            rp_doc_cell(d, "none");
            rp_doc_cell(d, "0");
        }
        rp_result_cells(d, row, "framework model precision global_batch", RP_NO_EVIDENCE);
        rp_doc_cell(d, RP_NO_EVIDENCE);
        rp_result_cells(d, row, "throughput unit evidence", RP_NO_EVIDENCE);
    }
}

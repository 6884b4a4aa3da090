/* What the captures before a run show that slows it, or makes it hard to repeat: the checks of `repro doctor`. */
#include "report/tables.h"

#include "base/json.h"
#include "capture/doctor/doctor.h"
#include "run/run.h"

#include <stdio.h>
#include <string.h>

#define NODES_SHOWN 8 /* those of a fleet are alike */
#define CAPTION "What slows a run there, or makes it hard to repeat: repro doctor, of the captures before it"

/* Findings that concern a run that is over: those about GPUs only where there are some, and not what could not be
 * seen. */
static int finding_concerns(const struct rp_finding *f, const json_t *capture)
{
    if (strcmp(f->check, "visibility") == 0)
        return 0;
    return strcmp(f->concerns, "gpu") != 0 || rp_json_integer_at(capture, "probes/gpu/count/value") > 0;
}

void rp_table_findings(struct rp_doc *d, const struct rp_run *r)
{
    const int several = r->nodes > 1;
    int any = 0;
    for (int node = 0; node < r->nodes && node < NODES_SHOWN; node++) {
        const json_t *capture = rp_run_capture(r, node, 0);
        RP_FINDINGS found = {0};
        rp_doctor(&found, capture);
        for (int64_t i = 0; i < found.findings_n; i++) {
            const struct rp_finding *f = &found.findings[i];
            if (!finding_concerns(f, capture))
                continue;
            if (!any++) {
                rp_doc_title(d, CAPTION);
                rp_doc_table(d, several ? "#node|severity|what|found|remedy" : "severity|what|found|remedy");
            }
            if (several)
                rp_doc_cell(d, "%d", node);
            rp_doc_text(d, f->severity, RP_UNKNOWN);
            rp_doc_text(d, f->what, RP_UNKNOWN);
            rp_doc_text(d, f->value, RP_UNKNOWN);
            rp_doc_text(d, f->remedy, RP_UNKNOWN);
        }
    }
}

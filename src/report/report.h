/* The report of a run as Markdown: `repro report --format md`.
 *
 * What:    a rendering of facts.json, run.json and the capture before the run.
 * Flow:    struct rp_run -> rp_report_md() -> Markdown.
 * Owner:   the run is borrowed; the caller owns the buffer.
 * Extend:  a section is a function in md.c; tables that the page has too are in tables.c.
 */
#pragma once

#include "base/buf.h"
#include "run/run.h"

/* The same bytes for the same bundle: no clock, no locale. It reads doc, facts, figures and captures of the run. */
void rp_report_md(struct rp_buf *out, const struct rp_run *run);

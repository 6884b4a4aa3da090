/* Reports: members that are rendered from other members.
 *
 * What:    one table of writers. Sealing calls each; verify calls each again and compares the bytes.
 * Flow:    documents and records of a run -> rp_report_<id>() -> bytes of one member.
 * Owner:   a writer borrows what it reads; the caller owns the buffer.
 * Extend:  one REPORT row in bundle/members.def, and report/<id>.c with its writer. It may read only its arguments (no clock, no
 *          locale, no version of this program), or a later verify gets other bytes; a changed format needs a new schema version.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "run/records.h"

#include <jansson.h>

struct rp_bundle; /* bundle/bundle.h */

struct rp_report_source {
    const json_t *run, *before, *after; /* run.json, env/node0.before.json, env/node0.after.json */
    const struct rp_buf *recipe;        /* the exact bytes of recipe.yaml */
    const struct rp_records *records;   /* steps/rank0.jsonl */
};

struct rp_report {
    const char *member; /* "report.md" */
    int (*write)(struct rp_buf *out, const struct rp_report_source *from, struct rp_err *err);
};
extern const struct rp_report rp_reports[]; /* ended by a row without a member */

/* Every report as a member of the bundle. */
int rp_reports_add(struct rp_bundle *b, const struct rp_report_source *from, struct rp_err *err) rp_must_check;

#define MEMBER(name, required, meaning)
#define REPORT(id, name, required, meaning) \
    int rp_report_##id(struct rp_buf *out, const struct rp_report_source *from, struct rp_err *err) rp_must_check;
#include "bundle/members.def"
#undef MEMBER
#undef REPORT

/* Capture: what this machine is, as one JSON document in which unknown is never zero.
 *
 * What:    a list of probes; each writes values {"state", "value", "source"} and, where they apply, "unit" and
 *          "detail". state: ok; absent (the machine does not have it); denied (unknown: no permission, or its file
 *          system is not mounted); error (unexpected content: see detail). value is null unless ok.
 * Flow:    /proc, /sys and friends, read below a root directory -> document (schema repro-env/1) and a short text
 *          summary; with `record`, also a copy of what was read, which can be the root of a later capture.
 * Owner:   the caller owns the json_t.
 * Extend:  a probe is one function in a file of its own and one row in probes.def; tests replace the root by a recorded
 *          tree.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/object.h"

#include <jansson.h>

#define RP_OBJECT_LIST "capture/documents.def"
#include "base/object_structs.inc.h"

struct rp_capture_opts {
    const char *root;    /* "/" normally */
    const char *workdir; /* directory whose git state is captured; NULL: the current one */
    /* directory into which what the probes look at is written (record.h), or NULL; not with identify */
    const char *record;
    const char **repos;  /* further git repositories, n_repos of them */
    int n_repos;
    int digests;         /* SHA-256 of every CUDA library, not only of the small ones */
    uint64_t probes;     /* bit i: the i-th of probes.def runs; 0: all of them */
    int identify;        /* host name, serials and UUIDs in clear instead of as salted hashes */
    const char *salt;    /* 32 hex digits; NULL: fresh random ones. Tests fix it. */
    struct rp_buf *hwloc_xml; /* receives hwloc's XML if the topology probe succeeds; or NULL */
    uint64_t wall_ns;         /* time of the capture since 1970; 0: by the clock of this machine */
};

/* o->probes from "cpu,memory"; an unknown name is RP_USAGE. */
int rp_capture_select(struct rp_capture_opts *o, const char *list, struct rp_err *err) rp_must_check;

/* {"schema": "repro-env/1", "captured_at", "salt", "identified", "probes": {...}}; bundle/schemas/env.schema.json
 * describes it. A hidden text is "sha256:" and the hex SHA-256 of salt, NUL, name of the value ("host.hostname"), NUL,
 * text: its owner can prove it later. The salt is public, so a guess can be tested by anybody. */
json_t *rp_capture(const struct rp_capture_opts *o, struct rp_err *err) rp_must_check;
/* The i-th file system that values of a document's "probes" come from ("/proc", "/sys", ...; NULL after the last), and
 * how many are denied because nothing is mounted there. */
const char *rp_capture_unseen(const json_t *probes, int i, int *values);
/* The page for people, 80 columns wide: what doctor.h warns of, then what is known, one fact a line. */
void rp_capture_summary(struct rp_buf *out, const json_t *env);

/* Importers: logs of other programs as comparable results, unsigned, each figure with its line in the log.
 *
 * What:    one table of formats (formats.def), one file per format, one document out.
 * Flow:    files -> lines.h -> importer -> imported.h -> {"schema": "repro-imported/1", "provenance", "rows",
 *          "unsigned": true}.
 * Owner:   struct rp_import owns drafts and sources; zero-initialise it, rp_import_fini().
 * Extend:  a format is a row of formats.def, whose head has the rest.
 *
 * Throughput is computed again from raw times where a log has them; the log's own figure is kept next to it, with a
 * note where the two disagree. What a log does not contain stays absent.
 */
#pragma once

#include "import/imported.h"
#include "import/lines.h"
#include "import/window.h"

#include <jansson.h>
#include <stdint.h>

#define RP_IMPORT_ROWS_MAX 100000

struct rp_import_opts {
    int64_t from, to;       /* steps of the timed window, -1: the default of the format */
    const char **set;       /* "key=value" each: facts that a log does not contain */
    int sets;
    const char *unit;       /* of the throughput: "sequences/s"; NULL: by the model */
};

struct rp_import_source {   /* one file while it is read */
    struct rp_import *import;
    const struct rp_import_opts *opts;
    const char *path;       /* as given */
    const char *name;       /* for documents: its last component, with the one before it where that is "2n8g" */
    struct rp_lines lines;
    struct rp_imported draft;   /* begins with the facts of --set */
    struct rp_log_window window; /* that of the options, or all steps except the first */
};

struct rp_import;
struct rp_importer {
    const char *name;
    size_t state; /* bytes, zeroed before each file */
    int (*begin)(struct rp_import_source *s, void *state, struct rp_err *err); /* before the first line; may be NULL */
    int (*line)(struct rp_import_source *s, void *state, char *line, size_t size, struct rp_err *err);
    int (*end)(struct rp_import_source *s, void *state, struct rp_err *err); /* adds the results of the file */
    void (*fini)(void *state); /* may be NULL */
    /* After all files together; may be NULL. */
    int (*finish)(struct rp_import *im, struct rp_err *err);
    /* Adds to a row what its runs, one for each file, have together, and to its note. */
    void (*merge)(json_t *row, struct rp_buf *note, const struct rp_imported *const *run, int n);
};
extern const struct rp_importer *const rp_importers[]; /* ended by NULL */
const struct rp_importer *rp_importer_find(const char *name,
                                           struct rp_err *err) rp_must_check; /* RP_USAGE, with the nearest name */

struct rp_import {
    const struct rp_importer *importer;
    struct rp_imported *draft;
    int n;
    json_t *sources;   /* [{"file", "sha256", "bytes", "lines"}] */
    json_t *systems;   /* of mllog: NAME -> systems/NAME.json; NULL: none */
};

/* A step of the timed window, from the text of --from or --to; NULL leaves *out as it is. */
int rp_import_step(int64_t *out, const char *option, const char *text, struct rp_err *err) rp_must_check;
int rp_import_file(struct rp_import *im, const char *path, const struct rp_import_opts *o,
                   struct rp_err *err) rp_must_check;
int rp_import_memory(struct rp_import *im, const char *path, const void *data, size_t size,
                     const struct rp_import_opts *o, struct rp_err *err) rp_must_check;
int rp_import_finish(struct rp_import *im, struct rp_err *err) rp_must_check; /* after the last of several files */
/* The rows of the document alone; every figure of each draft, with the line that it comes from, goes to the end of
 * `evidence`. */
json_t *rp_import_rows(const struct rp_import *im, json_t *evidence);
/* The document; at: RFC 3339. Repeats become one row: the median over the files. */
json_t *rp_import_document(const struct rp_import *im, const struct rp_import_opts *o, const char *at);
void rp_import_fini(struct rp_import *im);

/* For importers: adds a result; the draft is taken (and emptied). RP_MALFORMED when there are too many. */
int rp_import_add(struct rp_import_source *s, struct rp_imported *d, struct rp_err *err) rp_must_check;

#define FORMAT(id, reads) extern const struct rp_importer rp_importer_##id;
#include "import/formats.def"
#undef FORMAT

/* Rows: comparable results of bundles, published tables and imports in one form; unknown is never a value.
 *
 * What:    struct rp_result, its JSON form, and the three sources of them: bundles, published CSV, imported documents.
 * Flow:    file -> rp_rows_*() appends to struct rp_rows -> compare/compare.h and the layouts.
 * Owner:   struct rp_rows owns everything in it; zero-initialise it, rp_rows_fini().
 * Extend:  a property is one row of result.def: struct, JSON, CSV columns and selectors follow. What makes results
 *          incomparable is in confounders.def.
 *
 * Foreign text is cleaned (base/text.h) and bounded on input, and numbers are finite and positive, so later code need
 * not check. The origin that a document declares is ignored: the reader sets kind and signer.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "import/imported.h"

#include <jansson.h>
#include <stdint.h>

#define RP_ROWS_MAX 10000        /* of one file */
#define RP_RESULT_TEXT_MAX 500      /* bytes of one text */
#define RP_RESULT_NUMBER_MAX RP_FIGURE_MOST /* of anything that is counted or measured */
#define RP_RESULT_SAMPLES_MAX 100000
#define RP_IMPORTED_SCHEMA "repro-imported/1"

/* COMMAND: of the log of a command, in the bundle of `exec`: signed, but measured by the command itself. */
enum rp_result_kind { RP_RESULT_IMPORTED, RP_RESULT_PUBLISHED, RP_RESULT_BUNDLE, RP_RESULT_COMMAND };

struct rp_run_documents; /* run/run.h */
struct rp_result_source {
    enum rp_result_kind kind;
    /* NULL: unknown; signed_by only where a signature was checked here */
    char *file, *sha256, *format, *signed_by, *note;
    int64_t line;     /* of the file, from 1; -1: none */
    char *log_sha256; /* of the log that an imported document names, by its account; NULL */
    int known_table;  /* published: of a table that this program has too */
    int64_t number;   /* in the imported document, from 1; -1: it is of none */
    int key_known;    /* of a bundle: verified with a key that is trusted */
    char *statement;  /* of a bundle that verified: the digest that names it; NULL */
    char *warnings;   /* of a bundle: names of checks with a warning; NULL: none */
    /* of a bundle: "verified", "verified, but the key is unknown", "not verified: ..." */
    char *verdict;
};

/* "imported, unsigned"; "published, unsigned", or "table, unsigned" for a CSV file of unknown origin. */
const char *rp_result_unsigned_text(const struct rp_result_source *s);

struct rp_result {
#define TEXT(key, meaning) char *key;
#define COUNT(key, meaning) int64_t key;
#define REAL(key, meaning) double key;
#include "compare/result.def"
#undef TEXT
#undef COUNT
#undef REAL
    /* NaN: unknown; low and high: its 95 % interval, from its source or of its own samples */
    double throughput, low, high;
    char *unit;                   /* "sequences/s", "images/s", "tokens/s"; NULL where throughput is unknown */
    /* Throughputs of repeats, windows or steps, for intervals: group[i] of them belong to repeat i. The figure is the
     * median over the groups of the harmonic mean in each: samples over seconds, because every sample is the same
     * amount of work. */
    double *sample;
    int64_t samples;
    int64_t *group;
    int64_t groups;
    char **link; /* names of raw logs */
    int links;
    struct rp_result_source source;
    int selected;        /* by name or selector, or the only one of its file; not part of a whole table */
    json_t *environment; /* of a bundle: the capture before the run; NULL */
    struct rp_run_documents *run; /* of a bundle: facts.json and run.json, a reference; NULL */
};

struct rp_rows {
    struct rp_result *row;
    int n;
};

void rp_rows_fini(struct rp_rows *rows);
#define RP_ROWS __attribute__((cleanup(rp_rows_fini))) struct rp_rows
struct rp_result *rp_rows_add(struct rp_rows *rows); /* a row with nothing known; valid until the next one is added */
void rp_result_fini(struct rp_result *row);

/* By name, for selectors and columns: the text of a property, "" when unknown; -1 for a name that is not in result.def.
 * Setting refuses text that is not a number, not positive where required, or too long: RP_MALFORMED. */
int rp_result_get(char *out, size_t size, const struct rp_result *row, const char *key);
double rp_result_real(const struct rp_result *row, const char *key); /* of a REAL, with all its digits */
int rp_result_has_key(const char *key);
const char *rp_result_nearest_key(const char *key); /* for "did you mean"; NULL: none */
int rp_result_set(struct rp_result *row, const char *key, const char *text, struct rp_err *err) rp_must_check;
/* Cleaned copy of foreign text into *to, the old text is freed; empty is unknown. */
int rp_result_text(char **to, const char *key, const char *text, struct rp_err *err) rp_must_check;
/* A measured figure: decimal, finite, above 0. */
int rp_result_number(double *to, const char *key, const char *text, struct rp_err *err) rp_must_check;
/* Infers unknown values from known ones: devices from degrees, degrees of one device. */
void rp_result_complete(struct rp_result *row);
/* A figure for people; as_it_is: with the digits of a published one. "unknown" for NaN. */
const char *rp_result_figure(char out[32], double x, int as_it_is);
/* Ranks that computed: of a bundle those of its layout, else the devices; -1: unknown. */
int64_t rp_result_ranks(const struct rp_result *row);
/* The device, and on processors the number of threads of the run: "2 threads of Intel(R) Xeon(R) Processor"; NULL:
 * unknown. */
char *rp_result_hardware(const struct rp_result *row);
/* Tokens per second of a GPT, all of whose sequences are full; NaN: unknown. */
double rp_result_tokens(const struct rp_result *row);
/* Every sample a group of its own: repeats; copies them. */
void rp_result_samples(struct rp_result *row, const double *sample, int64_t n);

/* {"label", ..., "throughput": {"value", "unit", "low", "high"}, "samples", "sample_groups", "links", "source"}; absent
 * is unknown. */
json_t *rp_result_to_json(const struct rp_result *row);
/* The document of an importer: {"schema": "repro-imported/1", "provenance": {...}, "rows": [...], "unsigned": true}.
 * Every row gets kind "imported" and no signer. Unknown keys are refused. */
int rp_rows_from_json(struct rp_rows *rows, const json_t *doc, const char *file, const char *sha256,
                      struct rp_err *err) rp_must_check;
/* CSV with a line of column names: those of result.def and of results/published (published_csv.c lists them). */
int rp_rows_from_csv(struct rp_rows *rows, const char *data, size_t size, const char *file, const char *sha256,
                     struct rp_err *err) rp_must_check;

/* A bundle, verified. One that fails is refused unless `unverified`: then its members are used as they are, and the
 * verdict records that. */
struct rp_result_opts {
    const char *trust; /* as of `verify --trust`, or NULL */
    int unverified;
};
/* Adds one row for a run, or one for each result of the log of a command; RP_UNAVAILABLE: it has none. */
int rp_rows_from_bundle(struct rp_rows *rows, const char *path, const struct rp_result_opts *o,
                        struct rp_err *err) rp_must_check;
/* The same for a bundle that is verified already, without samples: for the published results on a page. */
struct rp_verification; /* verify/verify.h */
struct rp_verified;
struct rp_result *rp_rows_add_verified(struct rp_rows *rows, const struct rp_verification *v,
                                       const struct rp_verified *kept);
/* "published:NAME[#SELECTOR]", FILE.csv[#SELECTOR], an imported document or a bundle, by its contents. Selector:
 * key=value,key=value with the keys of result.def (gpus and batch mean devices and batch_per_device); RP_USAGE if no
 * row is left. */
int rp_rows_load(struct rp_rows *rows, const char *what, const struct rp_result_opts *o,
                 struct rp_err *err) rp_must_check;
/* All of them, in this order; bundles are verified in parallel. */
int rp_rows_load_all(struct rp_rows *rows, const char *const *what, int n, const struct rp_result_opts *o,
                     struct rp_err *err) rp_must_check;

/* The interface of probes: bounded reading below the root, and values with their state.
 *
 * What:    inner header of capture/. A probe is void rp_probe_<name>(struct rp_probe *p): it adds values to p->out.
 * Flow:    path below the root -> struct rp_text -> value {"state", "value", "source", ...}.
 * Owner:   struct rp_text owns its bytes (RP_TEXT frees them); values belong to the document.
 * Extend:  a row in probes.def and a file with the function. Read only through the functions below: they keep to the
 *          root, never block, turn hostile contents into a state, and note what was read for `capture --record`.
 * Secrets: identities and credentials are redacted as the file is read (rp_text_read_as, rp_put_hidden_line), so that
 *          neither a value nor a record can contain them. Reading a record redacts again: redactions are idempotent.
 */
#pragma once

#include "base/buf.h"
#include "base/text.h"
#include "capture/capture.h"
#include "capture/value.h"

#include <limits.h>

enum rp_state { RP_STATE_OK, RP_STATE_ABSENT, RP_STATE_DENIED, RP_STATE_ERROR };
const char *rp_state_name(enum rp_state s);          /* "ok" ... */
enum rp_state rp_state_named(const char *name);      /* RP_STATE_ERROR for any other text and NULL */

struct rp_probe {
    const struct rp_capture_opts *opts;
    int root;         /* fd of the root directory, -1: it cannot be opened */
    int live;         /* the root is "/": this process runs on what is captured */
    const char *name; /* of the probe at hand */
    const char *salt;
    json_t *out;      /* its object */
    const json_t *all; /* by name, the objects of the probes before it too */
    struct rp_recorder *record; /* what is written for --record, or NULL */
    const json_t *recorded;   /* live.json (record.h) of the root, or NULL */
};

struct rp_text {
    enum rp_state state;
    const char *path, *detail; /* borrowed; detail for RP_STATE_ERROR */
    struct rp_buf bytes;       /* NUL-terminated when ok; may hold NULs */
};
void rp_text_fini(struct rp_text *t);
#define RP_TEXT __attribute__((cleanup(rp_text_fini))) struct rp_text

#define RP_LINE_MAX 4096u         /* a value of one line */
#define RP_FILE_MAX (8u << 20)    /* /proc/cpuinfo of the largest machines */

/* A regular file below the root, of any content, at most RP_FILE_MAX bytes. path begins with '/' and stays valid. */
void rp_text_read(struct rp_text *t, const struct rp_probe *p, const char *path);
/* Removes or hides what must not leave the machine. A path is always read with the same redaction. */
typedef void rp_redact(const struct rp_probe *p, struct rp_buf *text);
void rp_text_read_as(struct rp_text *t, const struct rp_probe *p, const char *path, rp_redact *redact);
/* The same line by line, each without its end: line() adds what may be kept to `out`. */
typedef void rp_redact_line(const struct rp_probe *p, struct rp_buf *out, char *line);
void rp_text_read_lines(struct rp_text *t, const struct rp_probe *p, const char *path, rp_redact_line *line);
/* For a text that is inspected, but neither kept nor recorded. */
void rp_text_read_unrecorded(struct rp_text *t, const struct rp_probe *p, const char *path);
/* The target of a symbolic link, as written. */
void rp_link_read(struct rp_text *t, const struct rp_probe *p, const char *path);
/* Line by line: *at starts as NULL; returns the next line without its end (cut in place), NULL after the last. */
char *rp_text_line(struct rp_text *t, char **at);
/* "key : value" or "key=value" on a line of its own: a copy of the value, or NULL. */
char *rp_text_field(const struct rp_text *t, const char *key, char separator);

/* Sorted names in a directory below the root, at most `max`; RP_DIRLIST frees them. State as for files. */
struct rp_dirlist {
    enum rp_state state;
    const char *detail; /* borrowed; for RP_STATE_ERROR */
    char **name;
    int n;
};
void rp_dirlist_read(struct rp_dirlist *d, const struct rp_probe *p, const char *path, int max);
void rp_dirlist_free(struct rp_dirlist *d);
#define RP_DIRLIST __attribute__((cleanup(rp_dirlist_free))) struct rp_dirlist

char *rp_trimmed(const char *s, size_t n); /* a copy without the blanks and NULs around it */

/* The descriptor of a regular file below the root, or -1 and *state. Not recorded: what is made of it goes through
 * rp_probe_query(). */
int rp_probe_open(const struct rp_probe *p, const char *path, enum rp_state *state, const char **detail);
int rp_probe_exists(const struct rp_probe *p, const char *path); /* of any type; devices are not opened */
/* Follow links below root: path without links, beginning with '/', into out; what is missing stays as it is. Nothing
 * below /proc counts as a link. link() is called for each link on the way. 0, or -1 with errno. */
int rp_resolve(int root, const char *path, int follow_last, char out[PATH_MAX],
               void (*link)(void *ctx, const char *path, const char *target), void *ctx);

/* A fact that is not in a file: the answer to `what` (and arg, may be NULL), owned by the caller. On the live machine
 * from ask(), and recorded; else from the record; NULL: unknown. ask() returns a new reference or NULL, and nothing
 * that must be hidden. */
typedef json_t *rp_query(const struct rp_probe *p, const char *arg);
json_t *rp_probe_query(const struct rp_probe *p, const char *what, const char *arg, rp_query *ask);
/* The same for an arg that is hidden: a record has it as `shown`. */
json_t *rp_probe_query_as(const struct rp_probe *p, const char *what, const char *arg, const char *shown,
                          rp_query *ask);
/* Bytes of the file system that holds path, and those an ordinary user may still write; 0 or -1. */
int rp_probe_query_space(const struct rp_probe *p, const char *path, int64_t *total, int64_t *available);
/* A document of its own below the record's /.repro; it is read back with rp_text_read(). Nothing without a record. */
void rp_record_file(const struct rp_probe *p, const char *path, const void *data, size_t size);
/* In the record, the directory `from` is called `to`: for directories whose names are hidden. */
void rp_record_rename(const struct rp_probe *p, const char *from, const char *to);
/* The environment of this process by the allow-lists: NAME=value, each ended by NUL; secrets and identities are out
 * (environ.c). */
void rp_environ_read(struct rp_text *t, const struct rp_probe *p);

/* After the last probe: values that are absent because /proc, /sys or the control groups are not mounted become denied
 * (unseen.c). */
void rp_mark_unseen(const struct rp_probe *p, json_t *probes);

/* ---- values: all of them end in p->out or in an object below it ---- */

void rp_put(json_t *obj, const char *name, enum rp_state state, json_t *value, const char *source, const char *unit,
            const char *detail); /* takes value; unit, detail may be NULL */
/* NULL: absent; not text: an error */
void rp_put_str(json_t *obj, const char *name, const char *value, const char *source);
void rp_put_int(json_t *obj, const char *name, int64_t value, const char *source, const char *unit);
void rp_put_real(json_t *obj, const char *name, double value, const char *source, const char *unit);
void rp_put_absent(json_t *obj, const char *name, const char *source);
/* The state of a file that could not be read, for a value that would have come from it. */
void rp_put_state(json_t *obj, const char *name, const struct rp_text *t);
/* That state, or the error `detail` of a file that was read and whose text is not such a value. */
void rp_put_invalid(json_t *obj, const char *name, const struct rp_text *t, const char *unit, const char *detail);
/* What was found in a text, or its state where `value` is NULL. */
void rp_put_found(json_t *obj, const char *name, const char *value, const struct rp_text *t);
/* The value of "key : value" or "key=value" in a text, without its quotes; the text's state where there is none. */
void rp_put_field(json_t *obj, const char *name, const struct rp_text *t, const char *key, char separator);
/* A file of one line (its first counts) that is hidden, also in the record. */
void rp_put_hidden_line(const struct rp_probe *p, json_t *obj, const char *name, const char *path);
/* The hidden form itself, of a value of the probe at hand, or of "probe.value" for texts that several probes read. */
#define RP_HIDDEN 72 /* bytes of "sha256:..." with its NUL */
void rp_hide(const struct rp_probe *p, const char *name, const char *value, char out[RP_HIDDEN]);
void rp_hide_as(const struct rp_probe *p, const char *probe_and_name, const char *value, char out[RP_HIDDEN]);
int rp_is_hidden(const char *value);

/* Values and groups that another process or a record sends, by name into out; what is there already stays, and what is
 * not of the documented form becomes an error in the sender's name. A text with "hide": true is hidden. 1: there are
 * more than RP_FOREIGN_MAX, or of more text than a file may have, and the rest is left out; else 0. */
#define RP_FOREIGN_MAX 30000
struct rp_sender {
    const char *source, *complaint;
};
int rp_put_foreign(const struct rp_probe *p, json_t *out, const json_t *in, const struct rp_sender *s);
int rp_is_line(const json_t *j); /* a text of at most RP_LINE_MAX bytes that a terminal would not obey */

/* Whole files of one value. */
void rp_put_line(const struct rp_probe *p, json_t *obj, const char *name, const char *path);
void rp_put_number(const struct rp_probe *p, json_t *obj, const char *name, const char *path, int64_t scale,
                   const char *unit);
/* A list of processors or nodes like "0-3,8"; may be empty. */
void rp_put_cpus(const struct rp_probe *p, json_t *obj, const char *name, const char *path);
/* "always [madvise] never" -> "madvise" */
void rp_put_selected(const struct rp_probe *p, json_t *obj, const char *name, const char *path);

/* "0-3,8": how many, or -1; ids into out where out is not NULL (room for max). */
int rp_parse_cpus(const char *text, int *out, int max);

#define RP_MAX_CPUS 8192

#define PROBE(name) void rp_probe_##name(struct rp_probe *p);
#include "capture/probes.def"
#undef PROBE

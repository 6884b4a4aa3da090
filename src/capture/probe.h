/* What a probe has to work with: bounded reading below the root, and values with their state.
 *
 * What:    inner header of capture/. A probe is void rp_probe_<name>(struct rp_probe *p): it adds values to p->out.
 * Flow:    path below the root -> struct rp_text -> value {"state", "value", "source", ...}.
 * Owner:   struct rp_text owns its bytes (RP_TEXT frees them); values belong to the document.
 * Extend:  a row in probes.def and a file with the function. Read only through rp_text_read() and rp_names_read(): they keep to the
 *          root, never block, and turn hostile contents into a state.
 */
#ifndef RP_CAPTURE_PROBE_H
#define RP_CAPTURE_PROBE_H

#include "base/buf.h"
#include "capture/capture.h"

enum rp_state { RP_STATE_OK, RP_STATE_ABSENT, RP_STATE_DENIED, RP_STATE_ERROR };

struct rp_probe {
    const struct rp_capture_opts *opts;
    int root;         /* fd of the root directory, -1: it cannot be opened */
    int live;         /* the root is "/": this process runs on what is captured */
    const char *name; /* of the probe at hand */
    const char *salt;
    json_t *out;      /* its object */
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
/* Line by line: *at starts as NULL; returns the next line without its end (cut in place), NULL after the last. */
char *rp_text_line(struct rp_text *t, char **at);
/* "key : value" or "key=value" on a line of its own: a copy of the value, or NULL. */
char *rp_text_field(const struct rp_text *t, const char *key, char separator);

/* Sorted names in a directory below the root, at most `max`; free them with rp_names_free(). State as for files. */
struct rp_names {
    enum rp_state state;
    char **name;
    int n;
};
void rp_names_read(struct rp_names *d, const struct rp_probe *p, const char *path, int max);
void rp_names_free(struct rp_names *d);

/* The descriptor of a regular file below the root, or -1 and *state. */
int rp_probe_open(const struct rp_probe *p, const char *path, enum rp_state *state, const char **detail);
int rp_probe_exists(const struct rp_probe *p, const char *path);

/* ---- values: all of them end in p->out or in an object below it ---- */

void rp_put(json_t *obj, const char *name, enum rp_state state, json_t *value, const char *source, const char *unit,
            const char *detail); /* takes value; unit, detail may be NULL */
void rp_put_str(json_t *obj, const char *name, const char *value, const char *source); /* not text: an error */
void rp_put_int(json_t *obj, const char *name, int64_t value, const char *source, const char *unit);
void rp_put_real(json_t *obj, const char *name, double value, const char *source, const char *unit);
void rp_put_absent(json_t *obj, const char *name, const char *source);
/* The state of a file that could not be read, for a value that would have come from it. */
void rp_put_state(json_t *obj, const char *name, const struct rp_text *t);
/* Hidden unless o->identify. */
void rp_put_hidden(const struct rp_probe *p, json_t *obj, const char *name, const char *value, const char *source);
/* The hidden form itself. */
void rp_hide(const struct rp_probe *p, const char *name, const char *value, char out[72]);

/* Whole files of one value. */
void rp_put_line(const struct rp_probe *p, json_t *obj, const char *name, const char *path);
void rp_put_number(const struct rp_probe *p, json_t *obj, const char *name, const char *path, int64_t scale, const char *unit);
/* A number or the word "max". */
void rp_put_limit(const struct rp_probe *p, json_t *obj, const char *name, const char *path, const char *unit);
/* A list of processors or nodes like "0-3,8"; may be empty. */
void rp_put_cpus(const struct rp_probe *p, json_t *obj, const char *name, const char *path);
/* "always [madvise] never" -> "madvise" */
void rp_put_selected(const struct rp_probe *p, json_t *obj, const char *name, const char *path);

/* Digits and nothing else, 0..INT64_MAX (may have spaces around); 0 or -1. */
int rp_parse_count(const char *text, int64_t *out);
/* "0-3,8": how many, or -1; ids into out where out is not NULL (room for max). */
int rp_parse_cpus(const char *text, int *out, int max);

#define RP_MAX_CPUS 8192

#define PROBE(name) void rp_probe_##name(struct rp_probe *p);
#include "capture/probes.def"
#undef PROBE

#endif

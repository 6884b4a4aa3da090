/* A record: the files of a machine that the probes read, written so that the directory can replace "/".
 *
 * What:    DIR/<path> for every file that was read, as the probe saw it (redacted), and for every name, directory and
 *          link on the way; DIR/.repro/live.json: {"schema": "repro-record/1", "salt", "captured_at", "states": {path:
 *          {"state", "detail"?}}, "answers": {key: any}}: the files that could not be read, and what only system calls
 *          say.
 * Flow:    rp_record_new(), notes from read.c while probes run, rp_record_finish(); later rp_record_load() by `--root
 *          DIR`.
 * Owner:   rp_record_new() .. rp_record_free(). A note that fails is kept for rp_record_finish().
 * Extend:  answers of another kind go through rp_probe_query() (probe.h), whole documents through rp_record_file().
 *
 * live.json is written last: a directory with .repro but without it was not finished, and is refused.
 */
#pragma once

#include "capture/probe.h"

#define RP_RECORD_SCHEMA "repro-record/1"

/* dir must not exist, or be empty. root: what is recorded; when: "captured_at". */
struct rp_recorder *rp_record_new(const char *dir, int root, const char *salt, const char *when,
                                  struct rp_err *err) rp_must_check;
int rp_record_finish(struct rp_recorder *r, struct rp_err *err) rp_must_check;
void rp_record_free(struct rp_recorder *r);

/* t->path was read, or could not be read. redaction: identifies the redaction, NULL for the unchanged file. Of a path
 * that was read before, *t becomes what was read then. */
void rp_record_text(struct rp_recorder *r, struct rp_text *t, const void *redaction);
void rp_record_link(struct rp_recorder *r, const struct rp_text *t);                   /* the same of a link itself */
void rp_record_dirlist(struct rp_recorder *r, const char *path, const struct rp_dirlist *d);
void rp_record_name(struct rp_recorder *r, const char *path); /* it is there */
void rp_record_answer(struct rp_recorder *r, const char *key, json_t *answer);

/* live.json of the record below root; NULL with err->code RP_OK if root is not a record. `dir` names it in messages. */
json_t *rp_record_load(int root, const char *dir, struct rp_err *err) rp_must_check;

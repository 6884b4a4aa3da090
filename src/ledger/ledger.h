/* The ledger: one line for every attempt, good or bad, each bound to the line before it.
 *
 * What:    an append-only file of JSON lines next to the store. Each bundle cites its line, so publishing the best of ten runs reveals the
 *          other nine. A user can delete the file, but then the positions in bundles show a gap.
 * Flow:    fields of an attempt -> rp_ledger_append() -> one line, synced to disk; a file -> rp_ledger_read() -> lines that form a chain.
 * Owner:   nothing is open between calls; the caller owns JSON and texts.
 * Extend:  a kind of attempt is a row of RP_LEDGER_EVENTS and a caller that fills its fields; lines may have further keys.
 *
 * A line is compact JSON of sorted keys in ASCII:
 *   {"at":"2026-11-21T12:18:09Z","event":"started","n":57,"previous":HEX,"recipe":HEX,"recipe_name":"bert_fp32","sha256":HEX}
 * n counts from 1; sha256 is that of the line without this key (`jq -cS 'del(.sha256)' | sha256sum`), previous the sha256 of the line
 * before and zeros in the first. Further keys: "run" (n of the line that started what ends here: once, and of a run of this file), "bundle"
 * {"name", "statement"}, "exit", "verdict", "check", "replicates", "torn" {"bytes", "sha256"}: an incomplete line that a crash left at
 * the end of the file, moved to FILE.torn.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"

#include <jansson.h>
#include <stdint.h>

#define RP_LEDGER_LINE_MAX 8192
#define RP_LEDGER_ASIDE ".torn"
#define RP_LEDGER_NOTHING "0000000000000000000000000000000000000000000000000000000000000000" /* "previous" of the first line */

#define RP_LEDGER_EVENTS(X)                                                   \
    X(STARTED, "started", "a run is about to train")                          \
    X(SEALED, "sealed", "it ran to its end and its bundle was written")       \
    X(FAILED, "failed", "it failed; there may be a bundle of it")      \
    X(INTERRUPTED, "interrupted", "it was interrupted; there may be a bundle of it")              \
    X(VERIFIED, "verified", "a bundle was verified, with the verdict")
enum rp_ledger_event {
#define X(id, name, meaning) RP_LEDGER_##id,
    RP_LEDGER_EVENTS(X)
#undef X
};
const char *rp_ledger_event_name(enum rp_ledger_event e);
/* The event of that name if it ends a run, else NULL. */
const char *rp_ledger_end(const char *name);

/* $REPRO_LEDGER, else ledger.jsonl in the directory that store.h chooses when no --store is given (free it). *named: the first. */
char *rp_ledger_path(int *named);

/* The place of one line. */
struct rp_ledger_ref {
    int64_t position;         /* 0: nothing was appended */
    char head[RP_SHA256_HEX]; /* sha256 of the line */
    int64_t earlier;          /* runs of the same recipe that were started before it */
    uint64_t torn;            /* bytes of an unfinished line that were found and moved to FILE.torn */
    char reason[96];          /* why nothing was appended, without any name of this machine */
};

/* Takes the reference of fields ({"recipe": ...}: those particular to the event) and adds the rest. Several processes may append at once.
 * Nothing is appended to a last line that is damaged, other than torn. named 0: the file must be the user's own.
 * start: of the run that ends, for SEALED, FAILED and INTERRUPTED, else NULL; RP_MISMATCH if this file lacks it, or has its end. */
int rp_ledger_append(const char *path, int named, enum rp_ledger_event e, const struct rp_ledger_ref *start, json_t *fields,
                     struct rp_ledger_ref *mark, struct rp_err *err) rp_must_check;

struct rp_ledger_summary {
    int64_t lines;            /* valid ones, from the first */
    char head[RP_SHA256_HEX]; /* of the last of them; zeros for none */
    uint64_t torn;            /* bytes after the last line that has an end */
    uint64_t aside;           /* bytes in FILE.torn */
};
/* Passes every line in order to each(), unless that is NULL. Stops at the first bad line: RP_MISMATCH if a digest is wrong, or if the line
 * ends a run that no line before it started or that has ended; RP_MALFORMED if it is not a line of a ledger or the last one is torn; *s is
 * about the lines before. */
int rp_ledger_read(const char *path, int (*each)(void *arg, const json_t *line, struct rp_err *err), void *arg,
                   struct rp_ledger_summary *s, struct rp_err *err) rp_must_check;

/* One line of text with its newline, checked by itself; NULL with *err. The position is checked against n, the rest of the chain by the
 * caller. */
json_t *rp_ledger_line(const char *text, size_t size, int64_t n, struct rp_err *err) rp_must_check;

/* A run that names its place ("ledger" of run.json), found in a ledger. */
struct rp_ledger_standing {
    int64_t position, lines;
    int64_t earlier, later;    /* other runs of its recipe, started before and after */
    int64_t sealed, failed, interrupted, open; /* how the earlier ones ended; open: no end is recorded */
    char end[16];              /* event that ended the run itself, or "" */
    char statement[RP_SHA256_HEX]; /* of the bundle that ended it, or "" */
};
/* run: run.json. RP_MISMATCH if the ledger is another one, was cut or rewritten, or if run.json names no place. */
int rp_ledger_find(const char *path, const json_t *run, struct rp_ledger_standing *place, struct rp_err *err) rp_must_check;

/* The ledger: one line for every attempt, good or bad, each bound to the line before it and signed.
 *
 * What:    an append-only file of JSON lines next to the signing key, one for each key. Each bundle cites its line, so
 *          publishing the best of ten runs reveals the other nine. A user can delete the file, but then the next ledger
 *          begins at another time, and a verifier who has seen a bundle of the old one notices.
 * Flow:    fields of an attempt -> rp_ledger_append() -> one line, synced to disk; a file -> rp_ledger_read() -> lines
 *          that form a chain.
 * Owner:   nothing is open between calls, except `running` of a writer; the caller owns JSON and texts.
 * Extend:  a kind of attempt is a row of RP_LEDGER_EVENTS and a caller that fills its fields; lines may have further
 *          keys.
 *
 * A line is compact JSON of sorted keys in ASCII:
 *   {"at":"2026-11-21T12:18:09Z","event":"started","n":57,"previous":HEX,"recipe":HEX,"recipe_name":"bert_fp32",
 *    "sha256":HEX,"signature":BASE64}
 * n counts from 1; sha256 is that of the line without this key (`jq -cS 'del(.sha256)' | sha256sum`), previous the
 * sha256 of the line before and zeros in the first. The signature is Ed25519 over the line without both (`jq -cS
 * 'del(.sha256, .signature)'`), by the key of the first signed line. line.def lists the keys. While a run goes on, its
 * process holds a lock on byte n of FILE.running.
 *
 * Verifications have a file of their own (rp_ledger_verified_path), in the same form without signatures: "signer" and
 * "ledger" are what a bundle claims, and seen.c compares them with those of the next bundle, and with the lines of a
 * file of its signer.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/object.h"
#include "sign/key.h"

#include <jansson.h>
#include <stdint.h>

struct rp_facts; /* run/facts.h */

#define RP_OBJECT_LIST "ledger/line.def"
#include "base/object_structs.inc.h"

#define RP_LEDGER_LINE_MAX 8192
#define RP_LEDGER_ASIDE ".torn"
#define RP_LEDGER_RUNNING ".running"
/* "previous" of the first line */
#define RP_LEDGER_NOTHING "0000000000000000000000000000000000000000000000000000000000000000"

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
/* The event of that name, which may be NULL, if it ends a run, else NULL. */
const char *rp_ledger_end(const char *name);

/* ---- places ---- */

/* $REPRO_LEDGER, else ledger-<16 digits of the fingerprint>.jsonl in the folder of the key file (free it). *named: the
 * first. */
char *rp_ledger_path(const char *key_file, const char *fingerprint, int *named);
/* The ledger that is meant where no file is given, without loading a key: $REPRO_LEDGER, else the only one in the
 * folder of the default key (free it). NULL without *err: there is none yet; RP_USAGE: there are several. */
char *rp_ledger_own_path(struct rp_err *err) rp_must_check;
/* The record of what was verified here, in the folder of the trust store (free it). */
char *rp_ledger_verified_path(struct rp_err *err) rp_must_check;
/* Where ledgers were kept before each key had its own (free it); NULL: there is none. */
char *rp_ledger_old_path(void);
/* Whether the file is, or would be, on the layer of a container, which goes with it: not on a volume. */
int rp_ledger_is_on_layer(const char *path);

/* ---- writing ---- */

/* Who appends, and to which file. */
struct rp_ledger_writer {
    const char *path;
    int named;                     /* by the user; else the file must be the user's own, and no link */
    const struct rp_key_pair *key; /* signs; NULL: unsigned lines, as of verifications */
    uint64_t made_ns;              /* wall clock when the key was made, for the first signed line; 0: unknown */
    int by_file;                   /* that is the time of its file */
    /* set by the append of a start: a descriptor that marks the run as in progress; -1: none. Close it */
    int running;
};

#define RP_LEDGER_CLOCK_S 300 /* what a clock may have been set back between two runs */

/* The place of one line. */
struct rp_ledger_ref {
    int64_t position;         /* 0: nothing was appended */
    char head[RP_SHA256_HEX]; /* sha256 of the line */
    char at[32];              /* its time */
    int64_t earlier;          /* runs of the same recipe that were started before it */
    int64_t overlapping;      /* of a start: other runs in progress, of any recipe; -1: unknown */
    char begun[32];           /* of a start: time of the first line */
    char made[32];            /* of a start: when the key was made, according to the first signed line, or "" */
    int by_file;              /* that is the time of the key's file */
    uint64_t torn;            /* bytes of an unfinished line that were found and moved to FILE.torn */
    char reason[96];          /* why nothing was appended, without any name of this machine */
};

/* Takes the reference of fields ({"recipe": ...}: those particular to the event) and adds the rest. Several processes
 * may append at once. Nothing is appended to a last line that is damaged, other than torn, or that another key signed.
 * start: of the run that ends, for SEALED, FAILED and INTERRUPTED, else NULL; RP_MISMATCH if this file lacks it, or has
 * its end. */
int rp_ledger_append(struct rp_ledger_writer *w, enum rp_ledger_event e, const struct rp_ledger_ref *start,
                     json_t *fields, struct rp_ledger_ref *mark, struct rp_err *err) rp_must_check;

/* ---- reading ---- */

struct rp_ledger_summary {
    int64_t lines;            /* valid ones, from the first */
    int64_t unsigned_lines;   /* of them: those before the first signed one */
    char head[RP_SHA256_HEX]; /* of the last of them; zeros for none */
    char at[32];              /* its time, or "" */
    char begun[32];           /* time of the first line, or "" */
    char key[RP_FINGERPRINT_SIZE]; /* that signed the others, or "" */
    char made[32];            /* when it was made, according to its ledger, or "" */
    int by_file;              /* that is the time of its file */
    uint64_t torn;            /* bytes after the last line that has an end */
    uint64_t aside;           /* bytes in FILE.torn */
};
/* Reads one line; json: with the keys that line.def does not have. */
typedef int rp_ledger_each(void *arg, const struct rp_ledger_line *line, const json_t *json, struct rp_err *err);
/* Passes every line in order to each(), unless that is NULL. Stops at the first bad line: RP_MISMATCH if a digest is
 * wrong, or if the line ends a run that no line before it started or that has ended; RP_SIGNATURE: a signature is
 * wrong; RP_MALFORMED if it is not a line of a ledger, is not signed after one that is, or the last one is torn; *s is
 * about the lines before. */
int rp_ledger_read(const char *path, rp_ledger_each *each, void *arg, struct rp_ledger_summary *s,
                   struct rp_err *err) rp_must_check;
json_t *rp_ledger_line_schema(void); /* JSON Schema of a line */

/* A run that names its place ("ledger" of facts.json), found in a ledger. */
struct rp_ledger_standing {
    int64_t position, lines;
    int64_t earlier, later;    /* other runs of its recipe, started before and after */
    int64_t sealed, failed, interrupted, open; /* how the earlier ones ended; open: no end is recorded */
    /* runs of any recipe that began before it and ended after its start; that began before its end */
    int64_t before, during;
    int is_unsigned;           /* its line is not signed */
    char end[16];              /* event that ended the run itself, or "" */
    char statement[RP_SHA256_HEX]; /* of the bundle that ended it, or "" */
};
/* recipe: SHA-256 of the run's recipe; signer: the key that signed its bundle. RP_MISMATCH if the ledger is another
 * one, of another key, was cut or rewritten, or if the facts name no place. */
int rp_ledger_find(const char *path, const struct rp_facts *facts, const char *recipe, const char *signer,
                   struct rp_ledger_standing *place, struct rp_err *err) rp_must_check;

/* How the ledger of a bundle contradicts what was verified here before of its key; a later one replaces an earlier
 * one. */
enum rp_ledger_conflict_kind {
    RP_LEDGER_AGREES,
    RP_LEDGER_LEFT,    /* the bundle is in no ledger, and another bundle of the key cites a line */
    RP_LEDGER_AFTER,   /* its ledger began after another bundle of the key, which is in no ledger, was verified here */
    RP_LEDGER_ORDER,   /* the order of both lines contradicts their times */
    RP_LEDGER_BEGUN,   /* both ledgers began at different times */
    RP_LEDGER_MISSING, /* the line of the other bundle is not in the file */
    RP_LEDGER_LINE,    /* one line with two digests or two bundles */
};
/* Another bundle of a key that was verified here, and that one ledger cannot have together with this one. */
struct rp_ledger_conflict {
    enum rp_ledger_conflict_kind kind;
    int64_t position;              /* its line; 0: it is in no ledger, or there is no such bundle */
    char head[RP_SHA256_HEX];      /* of that line */
    char begun[32];                /* of its ledger, or "" */
    char statement[RP_SHA256_HEX]; /* of that bundle */
    char at[32];                   /* when it was verified */
    int64_t beyond;                /* lines cited by other bundles that are later than the last one of the file */
};
/* Looks in the record of verifications, path; one that does not exist has none.
 * ledger: a file of the signer that has every line that other bundles of its key cite, up to its own last one; NULL:
 * none was given. */
int rp_ledger_seen(const char *path, const char *ledger, const char *signer, const struct rp_facts *facts,
                   const char *statement, struct rp_ledger_conflict *found, struct rp_err *err) rp_must_check;
/* "ledger" of the line of a verification; NULL: the run names no place, or facts is NULL. */
json_t *rp_ledger_claim(const struct rp_facts *facts);

/* The bundle: NAME.repro.tar.zst, written deterministically, read strictly.
 *
 * What:    named members in, one file out; one file in, named members out.
 * Flow:    rp_bundle_add()... -> rp_bundle_seal() signs (sign/) and packs; rp_bundle_read() within limits, which checks
 *          nothing else. verify, whose memory must not grow with the bundle: rp_bundle_scan(), digests, then
 *          rp_bundle_again(). Where it lies: source.h.
 * Owner:   struct rp_bundle owns its members' bytes.
 * Extend:  a new member is one row of members.def (its order in the tar, whether it must exist, what it is).
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"

#include <stddef.h>

/* Limits are checked before training: one that is first met when a bundle is sealed loses the run. */
#define RP_BUNDLE_RANKS_MAX 1024
#define RP_BUNDLE_NODES_MAX 256
#define RP_BUNDLE_MEMBERS_MAX (32 + 3 * RP_BUNDLE_RANKS_MAX + 3 * RP_BUNDLE_NODES_MAX)
#define RP_BUNDLE_MEMBER_MAX (256ul << 20)    /* records of steps, and what hwloc wrote */
#define RP_BUNDLE_DOCUMENT_MAX (4ul << 20)    /* any other member */
#define RP_BUNDLE_DOCUMENTS_MAX (32ul << 20)  /* all others together, which are kept in memory */
#define RP_BUNDLE_LOG_MAX (6ul << 20)         /* a member of log/: three of them leave room for captures, */
#define RP_BUNDLE_OUTPUT_MAX (4ul << 20)      /* which of several processes share this with what is not the log */
#define RP_BUNDLE_TOTAL_MAX (512ul << 20)     /* all members */
#define RP_BUNDLE_VALUES_MAX 160000           /* of facts.json and of run.json */

struct rp_member {
    char *name;
    struct rp_buf bytes;        /* empty if the content was left out; then: */
    int left_out;               /* 1 */
    size_t size;                /* of the content */
    char sha256[RP_SHA256_HEX]; /* of the content */
};
struct rp_bundle {
    struct rp_member *member;
    int n;
};

/* What a bundle is about, by its members: a run of this program, or another program's command that it observed
 * (`repro exec`), whose figures are those of the command's own log. members.def has the members of each. */
enum rp_bundle_kind { RP_BUNDLE_ANY, RP_BUNDLE_RUN, RP_BUNDLE_COMMAND };
enum rp_bundle_kind rp_bundle_kind(const struct rp_bundle *b); /* never ANY */
#define RP_LOG_STDOUT "log/process0.stdout"                    /* which makes it the bundle of a command */
#define RP_LOG_STDERR "log/process0.stderr"
#define RP_LOG_FILE "log/file"

void rp_bundle_fini(struct rp_bundle *b);
#define RP_BUNDLE __attribute__((cleanup(rp_bundle_fini))) struct rp_bundle
int rp_bundle_add(struct rp_bundle *b, const char *name, const void *data, size_t size,
                  struct rp_err *err) rp_must_check;
const struct rp_member *rp_bundle_find(const struct rp_bundle *b, const char *name); /* NULL if absent */
/* The name of a member of a rank or a node: (0, ".jsonl") -> "steps/rank0.jsonl", (0, ".before.json") ->
 * "env/node0.before.json". */
#define RP_MEMBER_NAME 40
const char *rp_member_name(char out[RP_MEMBER_NAME], const char *kind, int number, const char *what);
/* until the end of the block */
#define RP_OF_RANK(rank, what) rp_member_name((char[RP_MEMBER_NAME]){0}, "steps/rank", rank, what)
#define RP_OF_NODE(node, what) rp_member_name((char[RP_MEMBER_NAME]){0}, "env/node", node, what)
#define RP_OF_PROCESS(process, what) rp_member_name((char[RP_MEMBER_NAME]){0}, "log/process", process, what)
#define RP_OF_DEVICE(device) rp_member_name((char[RP_MEMBER_NAME]){0}, "telemetry/device", device, ".jsonl")
const char *rp_bundle_meaning(const char *name); /* what such a member is, from members.def; "" for an unknown name */

struct rp_key_pair; /* sign/key.h */

/* Adds key.pem, verify.sh, SHA256SUMS with its two signatures, and statement.dsse.json; file receives the bytes of the
 * bundle. */
int rp_bundle_seal(struct rp_bundle *b, const struct rp_key_pair *key, struct rp_buf *file,
                   struct rp_err *err) rp_must_check;
/* Packs the members as they are: for a bundle that was read and got another countersignature or time stamp. */
int rp_bundle_pack(const struct rp_bundle *b, struct rp_buf *file, struct rp_err *err) rp_must_check;
/* From a descriptor of a file, whose position does not matter. Strict: regular files only, known metadata, plain names,
 * no duplicates, canonical order, every required member of its kind and none of the other, nothing after the end;
 * otherwise RP_MALFORMED. The contents of members are not checked. */
int rp_bundle_read(struct rp_bundle *b, int fd, struct rp_err *err) rp_must_check;
/* The same with bounded memory: only the digests of large records and of a large hwloc file are kept. */
int rp_bundle_scan(struct rp_bundle *b, int fd, struct rp_err *err) rp_must_check;
/* The bytes of a member of rp_bundle_scan(), in pieces. What was left out is read again from the same descriptor, with
 * RP_MISMATCH at the end if the bytes changed: the result of `piece` must not be used before this returns 0. */
int rp_bundle_again(int fd, const struct rp_member *m,
                    int (*piece)(void *to, const char *data, size_t size, struct rp_err *err), void *to,
                    struct rp_err *err) rp_must_check;
void rp_member_sha256(char out[RP_SHA256_HEX], const struct rp_member *m);
size_t rp_member_size(const struct rp_member *m);

/* What sealing adds and verify compares: the text of SHA256SUMS, the script, the list of subjects (all members except
 * the statement, countersignatures and time stamps; names are borrowed from b). */
void rp_bundle_sums(struct rp_buf *out, const struct rp_bundle *b);
const char *rp_bundle_script(size_t *size); /* once it changes, bundles with the earlier one get a note from `verify` */
struct rp_subject; /* sign/statement.h */
int rp_bundle_subjects(const struct rp_bundle *b, struct rp_subject *subject /* RP_BUNDLE_MEMBERS_MAX of them */);

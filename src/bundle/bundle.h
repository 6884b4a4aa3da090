/* The bundle: NAME.repro.tar.zst, written deterministically, read with suspicion.
 *
 * What:    named members in, one file out; one file in, named members out.
 * Flow:    rp_bundle_add()... -> rp_bundle_seal() signs (sign/) and packs; rp_bundle_open() reads within limits, checks nothing else.
 * Owner:   struct rp_bundle owns its members' bytes.
 * Extend:  a new member is one row of members.def (its order in the tar, whether it must exist, what it is).
 */
#ifndef RP_BUNDLE_BUNDLE_H
#define RP_BUNDLE_BUNDLE_H

#include "base/buf.h"
#include "base/err.h"

#include <stddef.h>

#define RP_BUNDLE_MEMBERS_MAX 256
#define RP_BUNDLE_FILE_MAX (64ul << 20)   /* compressed */
#define RP_BUNDLE_MEMBER_MAX (256ul << 20) /* one member */
#define RP_BUNDLE_TOTAL_MAX (512ul << 20) /* all members */

struct rp_member {
    char *name;
    struct rp_buf bytes;
};
struct rp_bundle {
    struct rp_member *member;
    int n;
};

void rp_bundle_fini(struct rp_bundle *b);
int rp_bundle_add(struct rp_bundle *b, const char *name, const void *data, size_t size, struct rp_err *err) rp_must_check;
const struct rp_member *rp_bundle_find(const struct rp_bundle *b, const char *name); /* NULL if absent */
const char *rp_bundle_meaning(const char *name); /* what such a member is, from members.def; "" for a name that no row allows */

struct rp_key_pair; /* sign/key.h */

/* Adds key.pem, verify.sh, SHA256SUMS with its two signatures, and statement.dsse.json; file receives the bytes of the bundle. */
int rp_bundle_seal(struct rp_bundle *b, const struct rp_key_pair *key, struct rp_buf *file, struct rp_err *err) rp_must_check;
/* Strict: regular files only, known metadata, plain names, no duplicates, canonical order, every required member, nothing after the
 * end. All of these are RP_MALFORMED. No member's content is looked at. */
int rp_bundle_open(struct rp_bundle *b, const char *path, struct rp_err *err) rp_must_check;
int rp_bundle_read(struct rp_bundle *b, const char *data, size_t size, struct rp_err *err) rp_must_check; /* the same from memory */

/* What seal() adds and verify compares: the text of SHA256SUMS, the script, the list of subjects (everything but the statement;
 * names are borrowed from b). */
void rp_bundle_sums(struct rp_buf *out, const struct rp_bundle *b);
const char *rp_bundle_script(size_t *size);
struct rp_subject; /* sign/statement.h */
int rp_bundle_subjects(const struct rp_bundle *b, struct rp_subject *subject /* RP_BUNDLE_MEMBERS_MAX of them */);

#endif

/* Public keys and signatures as OpenBSD's signify writes them; minisign's are made of the same two lines.
 *
 * What:    one comment line and one line of base64, each ended by a newline:
 *
 *            untrusted comment: TEXT
 *            base64 of   public key  "Ed" | number 8 | public key 32
 *                        signature   "Ed" | number 8 | signature 64
 *
 *          The number identifies a key and proves nothing.
 * Flow:    text -> struct, or RP_MALFORMED with the line; key -> text.
 * Owner:   fixed-size structs of the caller.
 * Extend:  another tool's form: key.h.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "sign/key.h"

#define RP_COMMENT_HEAD "untrusted comment: "
#define RP_RECORD_MAX 74 /* bytes that a line of base64 encodes: a signature */

/* A key as other tools write it. */
struct rp_foreign_public {
    unsigned char number[RP_KEY_NUMBER], key[32];
};
struct rp_signature_record {
    unsigned char kind[2], number[RP_KEY_NUMBER], sig[64];
};

/* Does it begin with a comment line, unlike PEM? */
int rp_is_commented(const char *text, size_t size);
/* How many bytes the second line encodes: 42 public key, 74 signature, 104 secret key of signify, 158 of minisign; 0 if
 * it is not base64. */
size_t rp_record_size(const char *text, size_t size);
/* The comment line and the line of base64 at *text, which must encode exactly `size` bytes, beginning with "Ed" or one
 * of `kinds` (pairs of letters, "EdED"). Moves *text and *left past them. */
int rp_record_read(unsigned char *out, size_t size, const char *kinds, const char **text, size_t *left,
                   const char *what, struct rp_err *err) rp_must_check;
/* The line of base64 alone, at line `number` of the file. */
int rp_record_line(unsigned char *out, size_t size, const char **text, size_t *left, const char *what, int number,
                   struct rp_err *err) rp_must_check;
/* nothing is left after that line */
int rp_record_end(size_t left, const char *what, int number, struct rp_err *err) rp_must_check;
void rp_record_write(struct rp_buf *out, const char *comment, const void *bytes, size_t size);

int rp_foreign_public_read(struct rp_foreign_public *p, const char *text, size_t size, const char *what,
                           struct rp_err *err) rp_must_check;
/* tool: "signify" or "minisign"; they differ in the comment alone. */
void rp_foreign_public_write(struct rp_buf *out, const struct rp_key_pair *k, const char *tool);

int rp_signify_sign(struct rp_buf *out, const struct rp_key_pair *k, const void *data, size_t size,
                    struct rp_err *err) rp_must_check;
/* 0: a well-formed signature of data by k; its key number is ignored. RP_MALFORMED or RP_SIGNATURE otherwise. */
int rp_signify_check(const char *text, size_t size, const struct rp_key_pair *k, const void *data, size_t data_size,
                     const char *what, struct rp_err *err) rp_must_check;

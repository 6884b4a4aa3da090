/* Secrets and identities: the one place that recognises them, for every untrusted text.
 *
 * What:    predicates for each kind of text, and the forms in which a text is shown.
 * Flow:    text -> yes or no; text -> itself, its hidden form, or a placeholder.
 * Owner:   texts are borrowed; what rp_public_...() give is the caller's to free.
 * Extend:  the beginning of a token is a row in tokens.def, a directory of persons a word in identity.c, a name before
 *          a password one in secrets.c (settings, names) or secrets_text.c (files).
 *
 * A setting is one value: a false positive costs little, so mentioning a password is enough. A name (of a branch, a
 * file, a directory) may mention a password, but not contain one. Of a whole file only the digest is recorded, which
 * reveals what can be guessed: passwords, not tokens and keys. A password in it must be followed by a value that is
 * neither a call nor a variable, because a false positive withholds the digest. Base64 and percent-encoded texts are
 * decoded first. A hidden form is a hash with a salt that is in the document: sufficient for names, but too weak for
 * passwords, which are withheld.
 */
#pragma once

#include "capture/probe.h"

/* A setting and its name ("" for none). Secrets are never shown, not even with --identify. */
int rp_is_secret(const char *name, const char *text);
int rp_is_secret_name(const char *text);
int rp_has_password(const char *text, size_t size); /* the bytes of a file */
int rp_is_secret_file(const char *path);            /* by its name: does its digest have to be withheld? */

/* scheme://user:password@ */
int rp_has_url_login(const char *s, const char *end);
/* "%41" -> "A"; NULL when there is nothing of the kind. */
char *rp_percent_decoded(const char *text, size_t size);

/* A text that identifies a person or a machine: a home directory, a UUID, an address, this host or this user. */
int rp_is_identity(const char *text);
/* Does a directory of this name ("home") contain directories of persons? */
int rp_is_persons_directory(const char *name, size_t n);

/* Filtering a text again leaves these unchanged. */
extern const char rp_credential[]; /* replaces a setting; rp_put_variable() makes it a denied value */
extern const char rp_withheld[];   /* replaces a name */
/* A name: itself, hidden as the value `key` of the probe at hand, or rp_withheld. */
char *rp_public_name(const struct rp_probe *p, const char *key, const char *name);
/* A message of another program or a library, without paths of persons, identities and credentials. */
char *rp_public_message(const struct rp_probe *p, const char *text);
int rp_is_system_path(const char *path); /* in a directory of system files, whose names identify no person */
/* What a program wrote, into out: words that look like credentials, values of the environment's secret variables and,
 * unless `identify`, names of persons and machines are replaced by rp_withheld. Numbers stay. Returns how many words
 * were replaced. */
int64_t rp_public_output(struct rp_buf *out, const char *text, size_t size, int identify);
/* A word of a command line, after the word `before` (NULL: none): likewise, and a path outside system folders is its
 * last part. */
char *rp_public_argument(const char *before, const char *text, int identify);

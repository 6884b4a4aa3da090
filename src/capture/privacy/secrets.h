/* What is a secret, and what names somebody: the one place that decides, for every text that strangers wrote.
 *
 * What:    four questions by what the text is, and the forms in which a text is shown.
 * Flow:    text -> yes or no; text -> itself, its hidden form, or words that say that it is withheld.
 * Owner:   texts are borrowed; what rp_public_...() give is the caller's to free.
 * Extend:  the beginning of a token is a row in tokens.def, a directory of persons a word in identity.c, a name before a password one in
 *          secrets.c (settings, names) or secrets_text.c (files).
 *
 * A setting is one value: what is withheld without need is little, so that the mention of a password is enough. A name (of a branch, a
 * file, a directory) may mention one and may not hold one. The lines of whole files are what programs are made of: there a password needs
 * a value that is no call and no variable, for what is withheld without need is all that differs in a file. Text that was written in
 * base64 or with percent signs is looked at as what it stands for. A hidden form is a hash with a salt that the document shows: good for
 * names, and too weak for passwords, which are withheld instead.
 */
#ifndef RP_CAPTURE_SECRETS_H
#define RP_CAPTURE_SECRETS_H

#include "capture/probe.h"

/* A setting, and the name ("" for none) that it goes by. Shown nowhere, not by --identify either. */
int rp_is_secret(const char *name, const char *text);
int rp_is_secret_name(const char *text);
int rp_is_secret_text(const char *text, size_t size);
int rp_is_secret_file(const char *path); /* by its name: do its contents have to be withheld? */

/* A whole token of tokens.def in s..end, or, loosely, what looks like the beginning of one. */
int rp_has_token(const char *s, const char *end, int loose);
/* Letters and digits in s..end that no person types. */
int rp_has_random_word(const char *s, const char *end);
/* scheme://user:password@ */
int rp_has_url_login(const char *s, const char *end);
/* "%41" -> "A"; NULL when there is nothing of the kind. */
char *rp_percent_decoded(const char *text, size_t size);

/* A text that says whose it is: a home directory, a device's UUID, an address, this host or this user. */
int rp_is_identity(const char *text);
/* Is what stands in a directory of this name ("home") somebody's? */
int rp_is_persons_directory(const char *name, size_t n);

extern const char rp_credential[]; /* in the place of a setting; rp_put_variable() then says so */
extern const char rp_withheld[];   /* in the place of a name */
/* A name: itself, hidden as the value `key` of the probe at hand, or rp_withheld. */
char *rp_public_name(const struct rp_probe *p, const char *key, const char *name);
/* What another program or a library said: without paths of persons and words that name or open something. */
char *rp_public_message(const struct rp_probe *p, const char *text);

#endif

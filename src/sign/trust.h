/* The trust store: public keys that this user trusts, by name.
 *
 * What:    $XDG_CONFIG_HOME/repro/trust/NAME.pem (else ~/.config/repro/trust), one public key a file, trusted for ever
 *          or until a day:
 *
 *            repro-trust/1
 *            until: 2027-06-30              the last day (UTC) on which this key is trusted, or "never"
 *            sha256: 64 hex digits          of the other lines, so that damage to the day is detected
 *            -----BEGIN PUBLIC KEY-----     as openssl reads it, which skips the lines above
 *
 *          A key in a file without the first three lines is trusted for ever.
 * Flow:    name, fingerprint or file -> the fingerprint that a bundle's key must have.
 * Owner:   struct rp_trust_list owns its entries; rp_trust_list_fini().
 * Extend:  another way to name a key goes into rp_trust_resolve().
 */
#pragma once

#include "base/err.h"
#include "sign/key.h"

#define RP_TRUST_NAME 128
#define RP_DATE_SIZE 11 /* "2027-06-30" */

struct rp_trusted {
    char *name, *path;
    char fingerprint[RP_FINGERPRINT_SIZE];
    char until[RP_DATE_SIZE]; /* "": for ever */
    int expired;              /* that day has passed */
};
struct rp_trust_list {
    struct rp_trusted *key; /* by name */
    char **skipped;         /* for every other file with such a name, a message with its path */
    int n, n_skipped;
};

/* Name: letters, digits, '.', '_', '-', '@', not starting with '.' or '-', not ending in .pem or .pub, at most
 * 64. until: NULL or a day that has not passed. Refuses the name of another key; for the same key the day is
 * updated. */
int rp_trust_add(const char *name, const char *until, const struct rp_key_pair *k, struct rp_err *err) rp_must_check;
int rp_trust_remove(const char *name, struct rp_err *err) rp_must_check; /* RP_USAGE: there is no such name */
/* A store that does not exist is empty, and a file that is not a public key does not hide the others. */
int rp_trust_list(struct rp_trust_list *list, struct rp_err *err) rp_must_check;
void rp_trust_list_fini(struct rp_trust_list *list);
/* 1: trusted, under that name. 0: not trusted; with a name: it was, until that day. -1: not found, and *err names a
 * file that cannot be read. */
int rp_trust_find(const char *fingerprint, char name[RP_TRUST_NAME], char until[RP_DATE_SIZE],
                  struct rp_err *err) rp_must_check;
/* `what` is a fingerprint ("SHA256:..."), a public key file when it holds a '/' or ends in .pem or .pub, and else a
 * name in the store. RP_SIGNATURE: the key was trusted until a day that has passed. */
int rp_trust_resolve(char fingerprint[RP_FINGERPRINT_SIZE], const char *what, struct rp_err *err) rp_must_check;

/* The trust store: public keys that this user believes, by name.
 *
 * What:    $XDG_CONFIG_HOME/repro/trust/NAME.pem (else ~/.config/repro/trust), one public key a file, for ever or until a day:
 *
 *            repro-trust/1
 *            until: 2027-06-30              the last day (UTC) on which this key is believed, or "never": no such day
 *            sha256: 64 hex digits          of the other lines, so that no damage to the day goes unnoticed
 *            -----BEGIN PUBLIC KEY-----     as openssl reads it, which skips what stands above
 *
 *          A file that is a public key and nothing else is believed for ever.
 * Flow:    name, fingerprint or file -> the fingerprint that a bundle's key must have.
 * Owner:   struct rp_trust_list owns its entries; rp_trust_list_fini().
 * Extend:  another way to name a key goes into rp_trust_resolve().
 */
#ifndef RP_SIGN_TRUST_H
#define RP_SIGN_TRUST_H

#include "base/err.h"
#include "sign/key.h"

#define RP_TRUST_NAME 128
#define RP_DATE_SIZE 11 /* "2027-06-30" */

struct rp_trusted {
    char *name, *path;
    char fingerprint[RP_FINGERPRINT_SIZE];
    char until[RP_DATE_SIZE]; /* "": for ever */
    int expired;              /* that day is over */
};
struct rp_trust_list {
    struct rp_trusted *key; /* by name */
    char **skipped;         /* of every other file with such a name, what is wrong with it: a message with its path */
    int n, n_skipped;
};

/* Name: letters, digits, '.', '_', '-', '@', not starting with '.' or '-', not ending in .pem or .pub, at most
 * 64. until: NULL or a day that is not over. Refuses a name that stands for another key; for the same key the day becomes this one. */
int rp_trust_add(const char *name, const char *until, const struct rp_key_pair *k, struct rp_err *err) rp_must_check;
int rp_trust_remove(const char *name, struct rp_err *err) rp_must_check; /* RP_USAGE: there is none of that name */
/* A store that does not exist is empty, and one file that is no public key does not hide the others. */
int rp_trust_list(struct rp_trust_list *list, struct rp_err *err) rp_must_check;
void rp_trust_list_fini(struct rp_trust_list *list);
/* 1: trusted, under that name. 0: not; with a name it was, until that day. -1: it is in no file that can be read, and *err names one that
 * cannot. */
int rp_trust_find(const char *fingerprint, char name[RP_TRUST_NAME], char until[RP_DATE_SIZE], struct rp_err *err) rp_must_check;
/* `what` is a fingerprint ("SHA256:..."), a public key file when it holds a '/' or ends in .pem or .pub, and else a name in the store.
 * RP_SIGNATURE: that name was believed until a day that is over. */
int rp_trust_resolve(char fingerprint[RP_FINGERPRINT_SIZE], const char *what, struct rp_err *err) rp_must_check;

#endif

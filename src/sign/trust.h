/* The trust store: public keys that this user believes, by name.
 *
 * What:    $XDG_CONFIG_HOME/repro/trust/NAME.pem (else ~/.config/repro/trust), one public key a file.
 * Flow:    name, fingerprint or file -> the fingerprint that a bundle's key must have.
 * Owner:   struct rp_trust_list owns its entries; rp_trust_list_fini().
 * Extend:  another way to name a key goes into rp_trust_resolve().
 */
#ifndef RP_SIGN_TRUST_H
#define RP_SIGN_TRUST_H

#include "base/err.h"
#include "sign/key.h"

struct rp_trusted {
    char *name, *path;
    char fingerprint[RP_FINGERPRINT_SIZE];
};
struct rp_trust_list {
    struct rp_trusted *key; /* by name */
    char **skipped;         /* of every other file with such a name, what is wrong with it: a message with its path */
    int n, n_skipped;
};

char *rp_trust_dir(struct rp_err *err) rp_must_check; /* free() it; it need not exist */
/* Name: letters, digits, '.', '_', '-', '@', not starting with '.' or '-', not ending in .pem, at most 64. Refuses a name that stands for
 * another key. */
int rp_trust_add(const char *name, const char *pem, size_t size, const char *what, struct rp_err *err) rp_must_check;
/* A store that does not exist is empty, and one file that is no public key does not hide the others. */
int rp_trust_list(struct rp_trust_list *list, struct rp_err *err) rp_must_check;
void rp_trust_list_fini(struct rp_trust_list *list);
/* The name of a trusted key: 1 and name, 0 when it is not in the store, -1 when it is in no file that can be read and *err names one that
 * cannot. */
int rp_trust_find(const char *fingerprint, char name[128], struct rp_err *err) rp_must_check;
/* `what` is a fingerprint ("SHA256:..."), a public key file when it holds a '/' or ends in .pem, and else a name in the store. */
int rp_trust_resolve(char fingerprint[RP_FINGERPRINT_SIZE], const char *what, struct rp_err *err) rp_must_check;

#endif

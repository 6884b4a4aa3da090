/* Passphrases of encrypted keys: from the terminal without echo, or from a file descriptor.
 *
 * Flow:    terminal or fd -> a fixed buffer -> rp_wipe().
 * Owner:   the caller's buffer; wipe it with rp_wipe(), or declare it RP_PASSPHRASE.
 */
#pragma once

#include "base/err.h"

#include <stddef.h>

struct rp_passphrase {
    char text[1024]; /* NUL-terminated, without the newline */
};
void rp_passphrase_fini(struct rp_passphrase *p);
#define RP_PASSPHRASE __attribute__((cleanup(rp_passphrase_fini))) struct rp_passphrase

void rp_wipe(void *p, size_t size); /* not optimised away */

/* Up to the first newline or the end; empty is refused. */
int rp_passphrase_from_fd(struct rp_passphrase *p, int fd, struct rp_err *err) rp_must_check;
/* Prompts on /dev/tty; with `again` twice, for a new key. RP_UNAVAILABLE without a terminal. */
int rp_passphrase_ask(struct rp_passphrase *p, const char *prompt, int again, struct rp_err *err) rp_must_check;

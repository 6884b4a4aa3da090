/* Addresses of processes: "HOST:PORT", names that resolve late, connecting and listening.
 *
 * What:    parse, resolve, connect with a deadline, listen; which addresses this host has.
 * Flow:    text -> struct rp_address -> rp_address_connect() | rp_address_listen() -> a non-blocking socket, closed on
 *          exec.
 * Owner:   the caller closes sockets.
 * Extend:  sockets of other protocols are made here, so that TCP_NODELAY and the flags are set in one place.
 */
#pragma once

#include "base/err.h"

#include <jansson.h>
#include <stdint.h>
#include <sys/socket.h>

#define RP_ADDRESS_HOST 254
#define RP_ADDRESS_TEXT 80 /* "192.0.2.1:61440", "[2001:db8::1]:61440" */

struct rp_address {
    char host[RP_ADDRESS_HOST + 1];
    int port; /* 0: not given */
};

/* "HOST", "HOST:PORT", "[IPv6]:PORT", "2001:db8::1". RP_USAGE. */
int rp_address_parse(struct rp_address *a, const char *text, struct rp_err *err) rp_must_check;
/* Tries all addresses of the name once: a socket, or -1: err->sys is that of the last attempt, and RP_UNAVAILABLE. */
int rp_address_connect(const char *host, int port, uint64_t deadline, struct rp_err *err) rp_must_check;
/* port 0: the kernel chooses; *port: the one. loopback: not reachable from other hosts. err->sys EADDRINUSE: the port
 * is taken. */
int rp_address_listen(int *port, int loopback, struct rp_err *err) rp_must_check;
int rp_address_accept(int listener); /* -1 with errno */
/* Does one of the addresses of the name belong to this host? -1: it does not resolve. */
int rp_address_is_here(const char *host);
/* ["192.0.2.2", "2001:db8::2"]: of all interfaces that are up, without loopback and link-local ones */
json_t *rp_address_own(void);
void rp_address_text(char out[RP_ADDRESS_TEXT], const struct sockaddr_storage *a, int with_port);

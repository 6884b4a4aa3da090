/* The hosts of --hosts: names as ssh takes them, with a number of ranks each.
 *
 * What:    "node1,me@node2:4,[2001:db8::7]:2" as a list; which of them is this machine.
 * Flow:    --hosts -> rp_hosts_parse() -> ssh.h starts a process of the job on every host but this one.
 * Owner:   struct rp_hosts owns its list.
 * Extend:  another form of a name is a case in parse_host(). What is not a letter, a digit or one of a few signs is
 *          refused: nothing in a
 * name is an option or text of a shell.
 */
#pragma once

#include "base/err.h"
#include "launch/address.h"

#define RP_HOSTS_MAX 512
#define RP_HOSTS_RANKS 4096 /* of one host */

struct rp_host_entry {
    char name[2 * RP_ADDRESS_HOST + 2]; /* what ssh gets, and messages: "node1", "me@node2", "2001:db8::7" */
    const char *host;                   /* in name, after the user */
    int ranks;                          /* 0: not given */
};

struct rp_hosts {
    struct rp_host_entry *entry;
    int n;
    int here; /* the entry that is this machine; -1: none is */
};

/* RP_USAGE: a name that no host has, a host given twice. Names are looked up until one of them is this machine's. */
int rp_hosts_parse(struct rp_hosts *h, const char *text, struct rp_err *err) rp_must_check;
void rp_hosts_fini(struct rp_hosts *h);

/* What this process may do, for the probes `security` and `launch`.
 *
 * What:    capability sets, system call filter, namespaces, and whether all of it together is what --privileged gives.
 * Flow:    /proc/self/status, /proc/self/ns, mount table -> struct rp_security.     Owner: texts are static.
 * Extend:  a capability is one name at the end of the table in security.c.
 */
#pragma once

#include "capture/container/container.h"

enum { RP_CAPABILITIES = 41 };
extern const char *const rp_capability_names[RP_CAPABILITIES]; /* by number */

struct rp_security {
    struct rp_text status;              /* /proc/self/status; its state tells whether the rest is known */
    int known, garbage;                 /* the sets are; they are there and unreadable */
    uint64_t effective, bounding, all;  /* bit n: capability n; all: those that this kernel has */
    int seccomp, no_new_privs;          /* 0: off, -1: not known */
};
/* /proc/self/status with the lines that say what a process may do, and of its users whether they are root. */
void rp_status_read(struct rp_text *t, const struct rp_probe *p);
void rp_security_read(struct rp_security *s, const struct rp_probe *p);
void rp_security_fini(struct rp_security *s);
#define RP_SECURITY __attribute__((cleanup(rp_security_fini))) struct rp_security

/* The capabilities that no engine gives unasked, no filter, /sys writable and nothing of /proc masked: what
 * --privileged does. 1, 0, or -1: not known. Not every capability: the machine around may lack some itself. */
int rp_is_privileged(const struct rp_security *s, const struct rp_mounts *m);

enum rp_namespace { RP_NAMESPACE_UNKNOWN, RP_NAMESPACE_HOST, RP_NAMESPACE_OWN };
/* "net", "pid", ... of this process: the first of the machine (or of its virtual machine), or one of its own. t: the
 * link that was read. */
enum rp_namespace rp_namespace_of(const struct rp_probe *p, const char *name, struct rp_text *t);

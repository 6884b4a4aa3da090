/* Shared parts of the container probes.
 *
 * What:    which engine runs this container; the control groups' names and limits.
 * Flow:    files below the root -> words, values of the probe at hand.     Owner: texts are static.
 * Extend:  an engine is a row in container.c; a public name of control groups is one in cgroup.c.
 */
#pragma once

#include "capture/host/mounts.h"

/* "docker", "podman", "containerd", "cri-o", "lxc", "systemd-nspawn", "apptainer", "enroot" or another word for itself;
 * "" when no container is seen. *source is the file with the evidence. */
struct rp_engine {
    char name[32], source[64];
    int kubernetes; /* it is a pod */
};
void rp_engine_find(struct rp_engine *e, const struct rp_probe *p, const struct rp_mounts *m);

void rp_cgroup_limits(struct rp_probe *p);
/* A file like /proc/self/cgroup, with the names of groups redacted. */
void rp_cgroup_read(struct rp_text *t, const struct rp_probe *p, const char *path);

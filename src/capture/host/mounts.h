/* The mount table of this process: /proc/self/mountinfo, redacted.
 *
 * What:    one struct rp_mount per line, in the table's order (a later one hides an earlier one at the same point).
 * Flow:    mountinfo -> redacted text (kept options, host paths and sources hidden) -> fields with their escapes
 *          undone.
 * Owner:   struct rp_mounts owns everything; the texts of a mount point into it.
 * Extend:  an option that moves a figure is one word in mounts.c; so are its values, a directory name of a container
 *          engine, a FUSE program and a name of devices.
 *
 * A path keeps the directory names that systems and engines give; of others, "<hidden>" is left on the host's side of a
 * bind mount, after /home and other directories of persons, and of what looks like a credential (secrets.h). Overlays
 * show the number of their layers and a hash over the names of these.
 */
#pragma once

#include "capture/probe.h"

struct rp_mount {
    const char *device;  /* "major:minor" */
    const char *root;    /* what of the file system is mounted: "/" or, of a bind mount, a path on the host's side */
    const char *point;   /* where */
    const char *options; /* "ro,nosuid": of the mount */
    const char *type, *source;
    const char *super;   /* "rw,size=65536k": of the file system */
};

struct rp_mounts {
    struct rp_text text; /* its state is that of the table */
    struct rp_mount *mount;
    int n;
};

#define RP_MOUNTS_PATH "/proc/self/mountinfo"

void rp_mounts_read(struct rp_mounts *m, const struct rp_probe *p);
void rp_mounts_fini(struct rp_mounts *m);
#define RP_MOUNTS __attribute__((cleanup(rp_mounts_fini))) struct rp_mounts
/* The mount that is seen at this very point, or NULL. */
const struct rp_mount *rp_mounts_at(const struct rp_mounts *m, const char *point);
/* The mount that holds an absolute path as rp_hide_path() gives it, or NULL. */
const struct rp_mount *rp_mounts_holding(const struct rp_mounts *m, const char *path);
/* "size" -> the text after "size=" up to the next comma ("" for an option without a value), in static-size out; 0, or
 * -1: not there. */
int rp_mount_option(const char *options, const char *name, char *out, size_t size);

/* A path of this machine as the table shows it. */
void rp_hide_path(const struct rp_probe *p, const char *path, char out[PATH_MAX]);

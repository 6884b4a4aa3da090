/* The device of an interface or a disk in sysfs: driver, PCI address and link, NUMA node; and readers of values that
 * several probes share.
 *
 * What:    the same values for network interfaces, RDMA devices, GPUs and disks.
 * Flow:    DIR/uevent, DIR/numa_node, DIR/current_link_speed ... -> values.
 * Owner:   values belong to the document.
 * Extend:  another value of all of them is one line in rp_put_device().
 */
#pragma once

#include "capture/probe.h"

#define RP_PATH 320
/* DIR/NAME, cut where it does not fit; out */
const char *rp_join(char out[RP_PATH], const char *dir, const char *name);

void rp_put_device(const struct rp_probe *p, json_t *obj, const char *dir);
/* A number that a driver may refuse to give, or gives as -1 while it does not know: absent then. */
void rp_put_optional(const struct rp_probe *p, json_t *obj, const char *name, const char *path, int64_t scale,
                     const char *unit);
/* A number that may be negative, where -1 is a setting. */
void rp_put_signed(const struct rp_probe *p, json_t *obj, const char *name, const char *path, const char *unit);

/* The group `name` with what one() adds to it for each plain name in a directory that begins with `prefix`, until there
 * are `max`. */
void rp_put_each(const struct rp_probe *p, json_t *obj, const char *name, const char *dir, const char *prefix,
                 size_t max, void (*one)(const struct rp_probe *p, json_t *group, const char *dir, const char *name));
/* The names in a directory that begin with `prefix` ("": all), as a list. */
void rp_put_names(const struct rp_probe *p, json_t *obj, const char *name, const char *dir, const char *prefix);

/* rp_probe_query() for answers made from files too large to record: below another root they are made again, unless the
 * record has the answer. */
json_t *rp_probe_query_files(const struct rp_probe *p, const char *what, rp_query *ask);
/* The state of a directory that could not be listed. */
void rp_put_unlisted(json_t *obj, const char *name, const struct rp_dirlist *d, const char *dir);

/* Name of a directory entry that may become a part of a path and a key of the document. */
int rp_is_plain_name(const char *name);

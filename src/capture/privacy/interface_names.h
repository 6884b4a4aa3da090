/* Names of network interfaces and RDMA devices: those that the kernel, systemd or container tools give are shown, all
 * others are hidden.
 *
 * What:    "eth0", "enp3s0f1", "mlx5_0" say where a device is; "vpn-customer", "enx" with a MAC address, "veth" with an
 *          identifier say whose it is.
 * Flow:    a name -> itself, or "if-" and 12 hexadecimal digits of its salted hash, the same wherever the name occurs
 *          in a document, in both captures of a run and in a record. A hidden name stays as it is when it is read
 *          again.
 * Owner:   texts are borrowed; what is returned as char * is the caller's to free.
 * Extend:  a form of names is a row in interface_names.c; a variable that lists interfaces is a word of its
 *          rp_variable_lists_interfaces().
 */
#pragma once

#include "capture/probe.h"

#define RP_INTERFACE 64 /* bytes of a name that is shown, with its NUL */

/* The form for a record, whatever the options say; out is not `name`. A hidden RDMA device has the form of a hidden
 * interface: settings name both in one list. */
void rp_interface_hide(const char *salt, const char *name, char out[RP_INTERFACE]);
void rp_rdma_hide(const char *salt, const char *name, char out[RP_INTERFACE]);
/* The same unless --identify is given. */
void rp_interface_show(const struct rp_probe *p, const char *name, char out[RP_INTERFACE]);
void rp_rdma_show(const struct rp_probe *p, const char *name, char out[RP_INTERFACE]);

/* The interfaces or RDMA devices below a directory, at most `max`, by the names that are shown and in their order, so
 * that a record gives the same document. rp_interface_real() gives the name in the file system of one of them. */
void rp_interfaces_read(struct rp_dirlist *d, const struct rp_probe *p, const char *path, int max);
void rp_rdma_read(struct rp_dirlist *d, const struct rp_probe *p, const char *path, int max);
const char *rp_interface_real(const char *shown);
/* A file of one line of names with blanks between them; hidden in the record too. */
void rp_put_interfaces_line(const struct rp_probe *p, json_t *obj, const char *name, const char *path);

/* A path, or the target of a link in /sys: the part after a directory "net" of /sys is the name of an interface, after
 * "infiniband" of an RDMA device. */
char *rp_path_hide_interfaces(const char *salt, const char *path);
/* The same in every "source" of a group of values, unless --identify is given. */
void rp_hide_interfaces_in_sources(const struct rp_probe *p, json_t *values);

/* NCCL_SOCKET_IFNAME, NCCL_IB_HCA and the like: "^docker0,vpn-customer", "mlx5_0:1,eth0", with every word as it is
 * shown. */
int rp_variable_lists_interfaces(const char *name);
char *rp_interface_words(const struct rp_probe *p, const char *value);

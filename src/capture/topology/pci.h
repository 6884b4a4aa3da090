/* PCI devices of interest (GPUs, NICs, NVMe drives, NVSwitches) and the tree in which they hang, from /sys/bus/pci.
 *
 * What:    the group of devices with their nodes and links; for the matrix, where two devices meet.
 * Flow:    /sys/bus/pci/devices/ADDRESS -> ../../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0: the last part is the
 *          device, the first the host bridge, those between are bridges (root port, upstream and downstream ports of
 *          switches).
 * Owner:   struct rp_pci_end owns its path.
 * Extend:  another kind of device is a row of the table in pci.c.
 */
#pragma once

#include "capture/probe.h"

/* Adds the group `name`: one group per device, by address; an absent value if there is no PCI bus. */
void rp_put_pci(const struct rp_probe *p, json_t *out, const char *name);


struct rp_pci_end {
    char *path;    /* "pci0000:3a/0000:3a:00.0/0000:3b:00.0"; NULL: not known */
    int64_t node;  /* NUMA node; -1: not known */
};
/* of a link below /sys into /sys/devices */
void rp_pci_end_init(struct rp_pci_end *e, const struct rp_probe *p, const char *link);
void rp_pci_end_fini(struct rp_pci_end *e);
/* "0000:3b:00.0" from the forms that drivers use ("00000000:3B:00.0"); 0 or -1. */
int rp_pci_address(char out[24], const char *text);
/* "PIX", "PXB", "PHB", "NODE", "SYS" as nvidia-smi defines them; NULL: not known. */
const char *rp_pci_relation(const struct rp_pci_end *a, const struct rp_pci_end *b);

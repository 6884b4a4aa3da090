/* How far GPUs and RDMA NICs are from each other: what `nvidia-smi topo -m` prints, as values and as text.
 *
 * What:    matrix: {columns: ["GPU0", ..., "mlx5_0"], rows: {GPU0: [cells], ...}, cpu_affinity, numa_affinity,
 *          gpu_numa_id: [one per GPU]}, cells being X, NV#, PIX, PXB, PHB, NODE, SYS, or N/A where it is not known.
 * Flow:    GPU to GPU from the gpu probe's values; whatever has a NIC in it from /sys (pci.h). Values -> text in the
 *          layout of the nvidia-smi that belongs to the driver.
 * Owner:   values belong to the document.
 * Extend:  a new layout is a row of the table in topo_matrix.c.
 */
#pragma once

#include "capture/probe.h"

/* gpu: the gpu probe's object, may be NULL. Adds `name`, an absent value where there is neither GPU nor RDMA NIC. */
void rp_put_topo_matrix(const struct rp_probe *p, json_t *out, const char *name, const json_t *gpu);
/* An empty line and the matrix of an environment document, if it has at least one GPU or two NICs. */
void rp_topo_matrix_text(struct rp_buf *out, const json_t *env);

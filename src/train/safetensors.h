/* safetensors files: named tensors that any other tool can read or write.
 *
 * What:    a strict, bounded reader and a streaming writer.
 *            u64 length of the header, little endian | header, a JSON object padded with spaces | data
 *            header: {"NAME": {"dtype": "F32", "shape": [..], "data_offsets": [begin, end]}, ..., "__metadata__": {"k":
 *            "text"}}
 * Flow:    file -> rp_st_open(), or an index of files -> rp_st_open_index(), which check everything about every tensor
 *          -> rp_st_read() in pieces; list -> rp_st_create() -> append -> commit.
 * Owner:   struct rp_st owns the descriptor and the header, or one struct for each file of an index; struct
 *          rp_st_writer owns a temporary file until commit or abort.
 * Extend:  another dtype is a row of the table in safetensors.c; what a tensor means is up to the caller.
 *
 * Refused, naming the tensor: a header longer than 16 MiB, repeated names, unknown fields, a size that is not shape *
 * dtype, offsets out of order or out of the file, and data that overlaps, has holes or is followed by more bytes.
 */
#pragma once

#include "base/err.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define RP_ST_DIMS 8
#define RP_ST_HEADER_MAX (16u << 20)

struct rp_st_tensor {
    const char *name;  /* borrowed from the header */
    const char *dtype; /* "F32" */
    int dims;
    int64_t shape[RP_ST_DIMS];
    uint64_t begin, end; /* in the data part */
    int shard;           /* index into rp_st.shard, 0 for a single file */
};

struct rp_st {
    int fd;
    char *path;
    json_t *header;
    uint64_t data; /* file offset of the data part */
    struct rp_st_tensor *t; /* sorted by name */
    int n;
    struct rp_st *shard; /* opened by rp_st_open_index(): one for each file; fd is -1 and header NULL */
    int shards;
};

/* A safetensors file, or one of torch.save (torch_file.h). */
int rp_st_open(struct rp_st *st, const char *path, struct rp_err *err) rp_must_check;
/* The files that NAME.safetensors.index.json lists, as save_pretrained writes large models, as one:
 * {"weight_map": {"TENSOR": "FILE"}}. */
int rp_st_open_index(struct rp_st *st, const char *path, struct rp_err *err) rp_must_check;
/* Without what wrappers of PyTorch put before every name: "module." (DistributedDataParallel), "_orig_mod."
 * (compile). */
void rp_st_unwrap_names(struct rp_st *st);
void rp_st_close(struct rp_st *st);
const struct rp_st_tensor *rp_st_find(const struct rp_st *st, const char *name); /* NULL: not there */
const char *rp_st_metadata(const struct rp_st *st, const char *key);             /* NULL: not there */
/* size bytes at `offset` bytes into the tensor */
int rp_st_read(const struct rp_st *st, const struct rp_st_tensor *t, uint64_t offset, void *out, size_t size,
               struct rp_err *err) rp_must_check;
/* n floats from element `first` on of a tensor of type F32, F16 or BF16, the latter two widened: every value of theirs
 * is one of fp32. A NaN stays one. */
int rp_st_is_float(const struct rp_st_tensor *t); /* one of the three */
int rp_st_read_floats(const struct rp_st *st, const struct rp_st_tensor *t, uint64_t first, float *out, size_t n,
                      struct rp_err *err) rp_must_check;
void rp_st_shape(char out[128], int dims, const int64_t *shape); /* "[30522, 768]" */

/* The file to which the process `pid` writes before renaming it to `path`; remove it after killing that process. free()
 * it. */
char *rp_st_temporary(const char *path, pid_t pid);

struct rp_st_writer {
    int fd;
    char *path, *temporary;
};

/* t: n tensors of type F32 (or NULL), F16, BF16 or I64 in the order in which their bytes will be appended (begin and
 * end are filled in here). metadata: object of texts. */
int rp_st_create(struct rp_st_writer *w, const char *path, struct rp_st_tensor *t, int n, const json_t *metadata,
                 struct rp_err *err) rp_must_check;
int rp_st_append(struct rp_st_writer *w, const void *data, size_t size, struct rp_err *err) rp_must_check;
/* fsync and rename; *w is empty afterwards */
int rp_st_commit(struct rp_st_writer *w, struct rp_err *err) rp_must_check;
void rp_st_abort(struct rp_st_writer *w);                                   /* safe after commit */

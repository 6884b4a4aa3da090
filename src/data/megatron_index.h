/* Megatron-LM's indexed datasets on disk: tokens in NAME.bin, sequences and documents in NAME.idx, little endian.
 *
 *     .idx: "MMIDIDX\0\0" | u64 version 1 | u8 type | u64 sequences S | u64 entries of the document index D
 *           | int32 length[S] | int64 pointer[S], bytes into .bin | int64 document[D], from 0 to S | int8 mode[S] or
 *           nothing
 *     type: 1 uint8, 2 int8, 3 int16, 4 int32, 5 int64, 8 uint16 (6 and 7 are floats)
 *     .bin: the tokens of all sequences, one after the other
 *
 * What:    the pairs of files of a data set, and where each sequence lies; megatron.c makes samples of them.
 * Flow:    files -> struct rp_megatron_index, checked against their sizes; documents -> the two files.
 * Owner:   the caller; rp_megatron_index_fini() frees it, also after a failure.
 * Extend:  another element type is a row of check_type() and one of enum rp_token_type.
 */
#pragma once

#include "base/buf.h"
#include "data/token_docs.h"
#include "data/token_files.h"

struct rp_megatron_index {
    int pairs, *bin;      /* [pairs] index of a .bin among the files of the set */
    int64_t *pair_first;  /* [pairs + 1] its first sequence */
    int64_t *start;       /* [sequences + 1] first token of each, counted over all pairs */
    int64_t sequences, documents;
};

/* path: as in files.h; also NAME without its ending, as in Megatron-LM's --data-path. */
int rp_megatron_list(struct rp_files *f, const char *path, struct rp_err *err) rp_must_check;
/* The indices among the files of the set, in their order; also fills set->range of each .bin. */
int rp_megatron_index_read(struct rp_megatron_index *m, struct rp_token_set *set, struct rp_err *err) rp_must_check;
void rp_megatron_index_fini(struct rp_megatron_index *m);
/* Documents first .. end as file[0], .bin, and file[1], .idx. */
int rp_megatron_make(struct rp_buf *file, const struct rp_token_docs *d, int64_t first, int64_t end,
                     const struct rp_data_opts *o, struct rp_err *err) rp_must_check;

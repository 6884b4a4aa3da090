/* Documents of token ids in memory, which `data make` writes as files of a format.
 *
 * What:    a list of documents, and the two kinds of files that they become.
 * Flow:    ids -> rp_token_docs -> rp_data_format.make() -> bytes of the files of one shard.
 * Owner:   struct rp_token_docs owns its arrays; rp_token_docs_fini() frees them.
 */
#pragma once

#include "base/buf.h"

#include <stdint.h>

struct rp_token_docs { /* zero-initialise; set eod and vocabulary */
    uint32_t *id;      /* of all documents, without an end of document */
    size_t ids, ids_cap;
    size_t *end;       /* [n] index in id[] after the last one of each document */
    int64_t n, n_cap;
    uint32_t eod;      /* the id between documents: <|endoftext|> */
    int64_t vocabulary; /* ids are below */
};

void rp_token_docs_fini(struct rp_token_docs *d);
#define RP_TOKEN_DOCS __attribute__((cleanup(rp_token_docs_fini))) struct rp_token_docs
void rp_token_docs_reserve(struct rp_token_docs *d, size_t ids); /* room for that many more */
static inline void rp_token_docs_add(struct rp_token_docs *d, uint32_t id)
{
    if (d->ids == d->ids_cap)
        rp_token_docs_reserve(d, 1);
    d->id[d->ids++] = id;
}
void rp_token_docs_close(struct rp_token_docs *d); /* ends a document; one without ids is dropped */

/* Ids of documents first..end-1, `width` bytes each, with the id eod before or after each document. */
void rp_token_docs_write(struct rp_buf *out, const struct rp_token_docs *d, int64_t first, int64_t end, int eod_before,
                         int width);
int64_t rp_token_docs_length(const struct rp_token_docs *d, int64_t i); /* with its eod */

/* Memory for JSON documents: free lists per thread.
 *
 * What:    jansson allocates some bytes for every value, and musl's malloc() takes one lock for all threads: `compare`
 *          of 1,000 bundles on two cores takes 18 s and 29 s of CPU time with malloc(), 12 s and 21 s with this. Blocks
 *          of up to 512 bytes come from here, larger ones from malloc().
 * Flow:    main() calls rp_json_memory() in programs linked with musl, before there is any document.
 * Owner:   blocks are freed by rp_json_block_free() only: what json_dumps() returns must not be passed to free(); use
 *          json_dumpb(). A thread keeps what it freed for its own next documents. A block may be freed by another
 *          thread.
 *
 * Without memory the program ends, as in rp_alloc(): jansson takes a failed allocation for text that is not JSON, and
 * what builds a document leaves a value out, so that an honest bundle failed its verification.
 *
 * Each block has a mark in front of it that cannot be guessed: freeing a block twice, freeing one that was never
 * allocated, and an overflow of the block before it are detected and end the program.
 */
#pragma once

#include <stddef.h>

void rp_json_memory(void);
void *rp_json_block(size_t size); /* as malloc(), but never NULL */
void rp_json_block_free(void *p); /* as free() */

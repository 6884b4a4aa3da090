/* Memory for JSON documents: lists of free blocks that every thread has for itself.
 *
 * What:    jansson allocates some bytes for every value, and musl takes one lock for all threads each time: two that read documents waited
 *          for each other most of the time. Blocks of up to 512 bytes come from here, larger ones from malloc().
 * Flow:    main() calls rp_json_memory() with musl, before there is any document; jansson asks from then on.
 * Owner:   what jansson hands out for the caller to free (json_dumps) is none of free()'s: json_dumpb() writes into the caller's own.
 *          A thread keeps what it freed for its own next documents, until the process ends. A block may be freed by another thread.
 * Extend:  nothing: who needs memory for something else calls rp_alloc().
 *
 * Each block has a mark in front of it that nobody outside can know: a block that is freed twice, or that was never given out, and a
 * neighbour that wrote over its end are bugs that end the program.
 */
#ifndef RP_BASE_JSON_MEMORY_H
#define RP_BASE_JSON_MEMORY_H

#include <stddef.h>

void rp_json_memory(void);
void *rp_json_block(size_t size); /* as malloc() */
void rp_json_block_free(void *p); /* as free() */

#endif

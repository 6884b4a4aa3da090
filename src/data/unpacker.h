/* Files that gzip or zlib compressed as a whole, read at any offset of their unpacked bytes.
 *
 * What:    one pass over a file finds places at which unpacking can begin, the starts of blocks of deflate and of
 *          members of gzip; a read begins at the last place before it, or goes on where the last read ended.
 * Flow:    rp_unpacker_scan() of each file in ascending order -> rp_unpacker_read().
 * Owner:   struct rp_unpacker owns its places and one stream; the files are the caller's. At most one thread may use it
 *          at a time.
 * Extend:  another compression has to have places where a reader can begin; zstd and xz as tools write them have none.
 *
 * A place has the 32 KiB before it. There are at most RP_UNPACKER_PLACES (128 MiB): when they are used up, every second
 * one is dropped and their distance, 1 MiB of unpacked bytes at first, doubles. So a read at random unpacks up to that
 * distance (1 MiB take about 3 ms), and reads in order unpack everything once. Nothing is written to disk.
 *
 * Refused, with the file and the byte where it is: damaged or truncated data, checksums that differ, bytes after the
 * end (but a file may have several members of gzip), a preset dictionary, and more than 250 unpacked bytes a byte, once
 * RP_UNPACKER_RATIO_FREE bytes are out.
 */
#pragma once

#include "base/err.h"
#include "data/files.h"

#include <stddef.h>
#include <stdint.h>

#define RP_UNPACKER_PLACES 4096
#define RP_UNPACKER_RATIO 250
#define RP_UNPACKER_RATIO_FREE (16u << 20)

enum rp_packing { RP_PACKING_NONE, RP_PACKING_GZIP, RP_PACKING_ZLIB };
enum rp_packing rp_packing_of(const void *head, size_t n); /* by the first bytes of a file */

/* Takes the next unpacked bytes of a file. */
typedef int (*rp_unpacker_sink_fn)(void *arg, const unsigned char *data, size_t size, struct rp_err *err);

struct rp_unpacker;
/* distance: of the first places, 0: 1 MiB. */
struct rp_unpacker *rp_unpacker_new(struct rp_files *files, uint64_t distance);
void rp_unpacker_free(struct rp_unpacker *u); /* NULL is fine */
/* All of file i, whose number is above those of files before. *size: unpacked bytes. */
int rp_unpacker_scan(struct rp_unpacker *u, int i, enum rp_packing packing, rp_unpacker_sink_fn sink, void *arg,
                     uint64_t *size, struct rp_err *err) rp_must_check;
/* size bytes from offset on of a file that was scanned. RP_IO: it has changed. */
int rp_unpacker_read(struct rp_unpacker *u, int i, uint64_t offset, void *out, size_t size,
                     struct rp_err *err) rp_must_check;
int rp_unpacker_places(const struct rp_unpacker *u); /* how many it has */

/* HDF5 files with tables of integers in their root group: exactly what h5py writes by default (libver earliest), and
 * nothing else.
 *
 * What:    a strict reader of a subset: superblock 0, groups by symbol table, object headers 1, little-endian integers
 *          of 1 to 8 bytes in one or two dimensions, contiguous or in chunks with deflate and shuffle.
 * Flow:    file -> rp_h5_open(), which reads the index of every chunk of the wanted tables -> rp_h5_row(), through a
 *          cache of chunks.
 * Owner:   struct rp_h5 owns its tables; the files are the caller's; struct rp_h5_cache serves several files. At most
 *          one thread at a time.
 * Extend:  a filter is a case in unfilter(); what else the format has is refused by its name with the command that
 *          converts it.
 *
 * Why not libhdf5: it is four megabytes with a long list of memory faults in what strange files make it do, and would
 * be linked into two programs; these files need a tenth of it. Bytes, little endian, addresses from the start of the
 * file (HDF5 file format specification, 1.1 and 3.0):
 *
 *     superblock   89 'HDF' 0d 0a 1a 0a | 0 0 0 0 0 | 8 8 (bytes of offsets, lengths) 0 | u16 u16 | u32 flags | u64
 *                  base 0, free space, end of file, driver | symbol of the root group
 *     symbol       u64 name in the heap | u64 object header | u32 cache type (2: a link) | u32 | 16 bytes
 *     header       1 0 | u16 messages | u32 references | u32 bytes | u32 | messages: u16 type | u16 bytes | u8 flags |
 *                  3 x 0 | data
 *     group        'TREE' 0 | u8 level | u16 entries | u64 u64 siblings | entries: u64 key | u64 child, or 'SNOD' 1 0 |
 *                  u16 symbols | symbols
 *     heap         'HEAP' 0 0 0 0 | u64 bytes | u64 free | u64 names
 *     chunks       'TREE' 1 | u8 level | u16 entries | u64 u64 | entries: u32 bytes | u32 filters that were left out |
 *                  u64 place in each dimension | u64 0 | u64 child or chunk
 */
#pragma once

#include "base/err.h"
#include "data/files.h"

#include <stdint.h>

#define RP_H5_TABLES_MAX 8
enum { RP_H5_DEFLATE = 1, RP_H5_SHUFFLE = 2 }; /* filters, by their numbers in files */
#define RP_H5_CHUNK_MAX (64u << 20)         /* bytes of an unpacked chunk */
#define RP_H5_CACHE_BYTES ((uint64_t)128 << 20)

/* Unpacked chunks of any files, the least recently used of which make room. */
struct rp_h5_cache;
struct rp_h5_cache *rp_h5_cache_new(uint64_t bytes); /* 0: RP_H5_CACHE_BYTES */
void rp_h5_cache_free(struct rp_h5_cache *c);        /* after the files that use it; NULL is fine */

struct rp_h5_chunk {
    uint64_t at;     /* in the file; 0: not there */
    uint32_t size;   /* stored bytes */
    uint32_t skipped; /* bit i: filter i was left out */
    int32_t cached;  /* its place in the cache and one more; 0: none */
};

struct rp_h5_table {
    const char *name;    /* as the caller wants it */
    int64_t rows, columns; /* columns: 1 of one dimension; rows -1: it is not there */
    int dims, width, is_signed; /* width: bytes of an element */
    int64_t chunk[2];    /* rows and columns of a chunk; 0: contiguous */
    int filter[2], filters;
    int64_t across;      /* chunks side by side */
    struct rp_h5_chunk *part; /* [chunks down * across] */
    int64_t parts;
    uint64_t at;         /* of contiguous data */
};

struct rp_h5 {
    struct rp_files *files;
    int file;
    struct rp_h5_cache *cache;
    struct rp_h5_table table[RP_H5_TABLES_MAX];
    int tables;
};

/* Finds the tables of these names. RP_MALFORMED with the file and the byte, or the table; after a failure, too,
 * rp_h5_close() it. */
int rp_h5_open(struct rp_h5 *h, struct rp_files *files, int file, struct rp_h5_cache *cache, const char *const *name,
               int names, struct rp_err *err) rp_must_check;
void rp_h5_close(struct rp_h5 *h);
/* The columns of one row. RP_MALFORMED without the file. */
int rp_h5_row(struct rp_h5 *h, int table, int64_t row, int64_t *out, struct rp_err *err) rp_must_check;

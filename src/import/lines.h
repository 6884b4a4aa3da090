/* Lines of an untrusted log: one pass, constant memory for any size of file.
 *
 * What:    a file (or bytes in memory) as numbered lines of bounded length, and its SHA-256.
 * Flow:    path -> rp_lines_next()... -> rp_lines_digest().
 * Owner:   struct rp_lines owns its descriptor and buffer; a line is valid until the next call.
 * Extend:  another kind of source fills the buffer in refill().
 */
#pragma once

#include "base/buf.h"
#include "base/hash.h"

#include <stdint.h>

#define RP_LOG_LINE_MAX (4ul << 20) /* nccl-tests writes its whole JSON as one line */

struct rp_lines {
    const char *name;        /* for messages, borrowed: printable */
    int64_t number;          /* of the line that was read last, from 1 */
    uint64_t bytes;          /* read so far */
    int fd;                  /* -1: memory */
    struct rp_buf buf;       /* bytes that were read and not returned yet begin at `at` */
    size_t at;
    int ended;
    int cut; /* the line that was read last has no end */
    struct rp_sha256 hash;
};

int rp_lines_open(struct rp_lines *l, const char *path, const char *name,
                  struct rp_err *err) rp_must_check; /* a regular file */
void rp_lines_memory(struct rp_lines *l, const char *name, const void *data, size_t size);
void rp_lines_fini(struct rp_lines *l);
/* 1: a line, without its end, terminated by NUL, NULs in it replaced by '?'. 0: the end. -1: unreadable, or a line is
 * too long. */
int rp_lines_next(struct rp_lines *l, char **line, size_t *size, struct rp_err *err) rp_must_check;
void rp_lines_digest(char out[RP_SHA256_HEX], struct rp_lines *l); /* of all bytes read; once, at the end */

/* "NAME:LINE: message", RP_MALFORMED; returns -1. */
int rp_lines_fail(const struct rp_lines *l, struct rp_err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

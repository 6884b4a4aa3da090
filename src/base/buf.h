/* Growable byte buffer and bounded file reading and writing.
 *
 * What:    rp_buf, printf into it, whole files in and out.
 * Flow:    bytes -> rp_buf -> bytes; files are written under a temporary name and renamed, so that a name never refers
 *          to half a file.
 * Owner:   an rp_buf owns its bytes; zero-initialise it ({0}) and rp_buf_fini() it, or declare it RP_BUF.
 * Extend:  other encodings go next to rp_hex/rp_base64.
 */
#pragma once

#include "base/err.h"
#include "base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdint.h>
#include <sys/types.h>

struct rp_buf {
    char *data; /* always NUL-terminated once something was added; data[size] == 0 */
    size_t size, cap;
};

void rp_buf_fini(struct rp_buf *b);
/* A variable with a cleanup attribute is cleaned up at every return after its declaration, even if it was not
 * initialised yet, and no compiler warns: initialise it, or declare it in the line above the call that fills it. */
#define RP_BUF __attribute__((cleanup(rp_buf_fini))) struct rp_buf
void rp_buf_add(struct rp_buf *b, const void *data, size_t size); /* out of memory ends the process with a message */
void rp_buf_puts(struct rp_buf *b, const char *s);
void rp_buf_printf(struct rp_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
const char *rp_buf_text(const struct rp_buf *b); /* the bytes, or "" if nothing was added; never NULL */
int rp_buf_is(const struct rp_buf *b, const void *data, size_t size); /* exactly these bytes */
char *rp_buf_take(struct rp_buf *b); /* hands out the NUL-terminated bytes (free them); b is empty again */

/* Allocation that cannot fail: ends the process with "out of memory" and status 7. */
void *rp_alloc(size_t size); /* zeroed */
void *rp_realloc(void *p, size_t size);
char *rp_strdup(const char *s);
void rp_out_of_memory(size_t size) __attribute__((noreturn)); /* for a library whose allocation failed */
/* What a variadic function was given after `fmt`, printed into new memory. */
#define RP_ASPRINTF_ARGS(text, fmt)                                                                                    \
    do {                                                                                                               \
        va_list ap_;                                                                                                   \
        va_start(ap_, fmt);                                                                                            \
        RP_BUG_IF(vasprintf(&(text), fmt, ap_) < 0);                                                                   \
        va_end(ap_);                                                                                                   \
    } while (0)
char *rp_asprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Text made safe by rp_sanitize(), in quotes, with \\ before each quote and \\ inside; free() it. */
char *rp_quote(const char *text);
void rp_freep(void *pp); /* for cleanup attributes: frees *pp */
#define RP_FREE __attribute__((cleanup(rp_freep)))
void rp_closep(int *fd);
#define RP_FD __attribute__((cleanup(rp_closep))) int
int rp_fd_take(int *fd); /* hands the descriptor out of an RP_FD */
int rp_fd_high(int fd); /* a duplicate descriptor of at least 10, closed on exec; -1 with errno */

/* The result of a system call that is repeated while signals interrupt it. */
#define RP_RETRY(call)                                                                                                 \
    __extension__({                                                                                                    \
        ssize_t result_;                                                                                               \
        while ((result_ = (call)) < 0 && errno == EINTR) {                                                             \
        }                                                                                                              \
        result_;                                                                                                       \
    })

/* Opens a regular file for reading, without waiting for the writer of a pipe; -1 and RP_IO. */
int rp_open_regular(const char *path, struct rp_err *err) rp_must_check;
/* Syncs the directory after a name in it changed. Some file systems refuse that; the change is atomic all the same. */
void rp_sync_directory_of(const char *path);
/* Whole regular file, at most `limit` bytes; larger is RP_MALFORMED, unreadable RP_IO. */
int rp_read_file(struct rp_buf *out, const char *path, size_t limit, struct rp_err *err) rp_must_check;
/* path: in messages */
int rp_read_opened(struct rp_buf *out, int fd, const char *path, size_t limit, struct rp_err *err) rp_must_check;
/* Write under a temporary name in the same directory (mode & ~umask), fsync, rename over path. A device like /dev/null
 * is written in place; anything else that is not a regular file is refused. */
int rp_write_file(const char *path, const void *data, size_t size, mode_t mode, struct rp_err *err) rp_must_check;
/* As many of `size` bytes at `offset` as the file has: fewer at its end only; -1 with errno. Survives EINTR. */
ssize_t rp_pread_all(int fd, void *out, size_t size, uint64_t offset);
/* The same for a new file: fails with err->sys EEXIST if the name is taken. */
int rp_write_new_file(const char *path, const void *data, size_t size, mode_t mode, struct rp_err *err) rp_must_check;
/* Renames a finished file to a name that must be free; 0, or -1 with errno (EEXIST: taken). tmp is gone on success. */
int rp_publish(const char *tmp, const char *path);
int rp_write_all(int fd, const void *data, size_t size); /* 0, or -1 with errno; survives EINTR and short writes */
int rp_mkdirs(const char *path, mode_t mode, struct rp_err *err) rp_must_check; /* mkdir -p */
char *rp_folder_of(const char *path); /* "." where it names none (free it) */
/* as seen from the folder of a file, unless it is absolute (free it) */
char *rp_path_next_to(const char *file, const char *path);
/* The path of the directory for files that are kept between runs, which need not exist (free it): `store` if given
 * (--store), else $REPRO_STORE, else $XDG_CACHE_HOME/repro, else $HOME/.cache/repro, else /tmp/repro-<uid>. *named (or
 * NULL): 1 if the user named it. */
char *rp_store_path(const char *store, int *named);

/* lower-case hex; out has 2*n+1 bytes */
void rp_hex(char *out, const void *data, size_t n);
int rp_unhex(void *out, size_t n, const char *hex); /* exactly 2*n digits, 0 or -1 */
void rp_base64(struct rp_buf *out, const void *data, size_t n);
/* strict RFC 4648 with padding, no whitespace; 0 or -1 */
int rp_unbase64(struct rp_buf *out, const char *text, size_t n);

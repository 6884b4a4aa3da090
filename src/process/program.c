#include "process/program.h"

#include "base/embed.h"
#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

enum { IN_MEMORY_EXEC = 0x10 }; /* MFD_EXEC, since Linux 6.3 */

static int unpack_program(struct rp_buf *out, const void *frame, size_t size, struct rp_err *err)
{
    unsigned long long n = ZSTD_getFrameContentSize(frame, size);
    if (n > RP_PROGRAM_MAX) /* unknown and broken are the largest numbers */
        return rp_fail(err, RP_BUG, "the embedded program is not a zstd frame of at most %u bytes", RP_PROGRAM_MAX);
    RP_FREE char *bytes = rp_alloc((size_t)n + 1);
    size_t got = ZSTD_decompress(bytes, (size_t)n, frame, size);
    if (ZSTD_isError(got) || got != n)
        return rp_fail(err, RP_BUG, "the embedded program cannot be unpacked: %s",
                       ZSTD_isError(got) ? ZSTD_getErrorName(got) : "too short");
    rp_buf_add(out, bytes, (size_t)n);
    return 0;
}

int rp_program_gpu(struct rp_buf *out, struct rp_err *err)
{
    const struct rp_embed *e = rp_embed_find("repro-gpu.zst");
    if (e)
        return unpack_program(out, e->data, e->size, err);
    return rp_fail(err, RP_UNAVAILABLE, "this build has no GPU worker (make CUDA=1)");
}

static int in_memory(const struct rp_buf *program, const char *name, struct rp_err *err)
{
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    RP_FD fd = memfd_create(name, flags | IN_MEMORY_EXEC);
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create(name, flags);
    if (fd < 0 || rp_write_all(fd, program->data, program->size) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return rp_fail(err, RP_UNAVAILABLE, "no executable memory for %s: %s", name, strerror(errno));
    int high = rp_fd_high(fd);
    return high >= 0 ? high : rp_fail(err, RP_UNAVAILABLE, "no file descriptor for %s: %s", name, strerror(errno));
}

/* An existing file may be incomplete, or another user's where the directory is shared. The bytes are compared through
 * the descriptor that will be executed, of a file that only its owner can write. */
static int open_checked(const char *path, const struct rp_buf *program)
{
    struct stat st;
    RP_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 0777) != 0700 ||
        st.st_size != (off_t)program->size)
        return -1;
    void *bytes = mmap(NULL, program->size, PROT_READ, MAP_PRIVATE, fd, 0);
    int same = bytes != MAP_FAILED && memcmp(bytes, program->data, program->size) == 0;
    if (bytes != MAP_FAILED)
        munmap(bytes, program->size);
    if (!same)
        return -1;
    return rp_fd_high(fd);
}

static int in_cache(const struct rp_buf *program, const char *dir, const char *path, struct rp_err *err)
{
    int fd = open_checked(path, program);
    if (fd >= 0)
        return fd;
    struct stat st;
    if (rp_mkdirs(dir, 0700, err) < 0)
        return -1;
    /* else another user could place a link there */
    if (lstat(dir, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 022))
        return rp_fail(err, RP_IO, "'%s' can be written by other users", dir);
    unlink(path);
    if (rp_write_file(path, program->data, program->size, 0700, err) < 0)
        return -1;
    fd = open_checked(path, program);
    return fd >= 0 ? fd : rp_fail(err, RP_IO, "'%s' is not what was written there a moment ago", path);
}

int rp_program_open(const struct rp_buf *program, const char *name, enum rp_program_way way, char **path,
                    struct rp_err *err)
{
    char hex[RP_SHA256_HEX];
    if (way == RP_PROGRAM_MEMORY)
        return in_memory(program, name, err);
    rp_sha256_hex(hex, program->data, program->size);
    RP_FREE char *dir = rp_store_path(NULL, NULL), *file = rp_asprintf("%s/%s-%s", dir, name, hex);
    const int fd = in_cache(program, dir, file, err);
    if (path) {
        *path = file;
        file = NULL;
    }
    return fd;
}

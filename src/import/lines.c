#include "import/lines.h"

#include "base/zstd_magic.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK (256u << 10)

int rp_lines_open(struct rp_lines *l, const char *path, const char *name, struct rp_err *err)
{
    struct stat st;
    *l = (struct rp_lines){.name = name, .fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
    rp_sha256_init(&l->hash);
    if (l->fd < 0)
        return rp_fail(err, RP_IO, "cannot open '%s': %s", name, strerror(errno));
    if (fstat(l->fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        rp_lines_fini(l);
        return rp_fail(err, RP_IO, "'%s' is not a regular file", name);
    }
    char begin[RP_ZSTD_MAGIC_SIZE];
    if (pread(l->fd, begin, sizeof begin, 0) == sizeof begin && rp_is_zstd(begin, sizeof begin)) {
        rp_lines_fini(l);
        return rp_fail(err, RP_MALFORMED,
                       "'%s' is compressed with zstd, not a log: 'repro compare' and 'repro report' take a bundle as "
                       "it is, and 'zstd -d' makes a log of it otherwise",
                       name);
    }
    return 0;
}

void rp_lines_memory(struct rp_lines *l, const char *name, const void *data, size_t size)
{
    *l = (struct rp_lines){.name = name, .fd = -1, .ended = 1, .bytes = size};
    rp_sha256_init(&l->hash);
    rp_sha256_update(&l->hash, data, size);
    rp_buf_add(&l->buf, data, size);
}

void rp_lines_fini(struct rp_lines *l)
{
    rp_closep(&l->fd);
    rp_buf_fini(&l->buf);
}

static int refill_buffer(struct rp_lines *l, struct rp_err *err)
{
    size_t left = l->buf.size - l->at;
    if (l->at) {
        memmove(l->buf.data, l->buf.data + l->at, left);
        l->buf.size = left;
        l->at = 0;
    }
    if (!l->buf.data || l->buf.cap < left + CHUNK + 1) { /* reserve room by adding bytes and removing them again */
        static const char room[CHUNK];
        rp_buf_add(&l->buf, room, CHUNK);
        l->buf.size = left;
    }
    ssize_t got = RP_RETRY(read(l->fd, l->buf.data + left, CHUNK));
    if (got < 0)
        return rp_fail(err, RP_IO, "cannot read '%s': %s", l->name, strerror(errno));
    rp_sha256_update(&l->hash, l->buf.data + left, (size_t)got);
    l->bytes += (uint64_t)got;
    l->buf.size += (size_t)got;
    l->buf.data[l->buf.size] = 0;
    l->ended = got == 0;
    return 0;
}

int rp_lines_next(struct rp_lines *l, char **line, size_t *size, struct rp_err *err)
{
    size_t seen = 0;
    char *end = NULL;
    for (;;) {
        size_t left = l->buf.size - l->at;
        if (left > seen)
            end = memchr(l->buf.data + l->at + seen, '\n', left - seen);
        seen = left;
        if ((end ? (size_t)(end - (l->buf.data + l->at)) : left) > RP_LOG_LINE_MAX) {
            l->number++;
            return rp_lines_fail(l, err, "the line is longer than %lu MiB; is this the right file?",
                                 RP_LOG_LINE_MAX >> 20);
        }
        if (end || l->ended)
            break;
        if (refill_buffer(l, err) < 0)
            return -1;
    }
    if (!end && !seen)
        return 0;
    char *start = l->buf.data + l->at;
    size_t n = end ? (size_t)(end - start) : seen;
    l->at += n + (end != NULL);
    l->cut = !end;
    l->number++;
    n -= n && start[n - 1] == '\r';
    start[n] = 0;
    for (char *nul = start; (nul = memchr(nul, 0, n - (size_t)(nul - start))); nul++)
        *nul = '?';
    *line = start;
    *size = n;
    return 1;
}

void rp_lines_digest(char out[RP_SHA256_HEX], struct rp_lines *l)
{
    rp_sha256_final_hex(&l->hash, out);
}

int rp_lines_fail(const struct rp_lines *l, struct rp_err *err, const char *fmt, ...)
{
    char text[400];
    RP_FORMAT_ARGS(text, fmt);
    return rp_fail(err, RP_MALFORMED, "%s:%" PRId64 ": %s", l->name, l->number, text);
}

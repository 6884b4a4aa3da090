#include "base/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void rp_out_of_memory(size_t size)
{
    fprintf(stderr, "repro: out of memory: %zu bytes could not be allocated\n", size);
    _Exit(rp_exit_status(RP_UNAVAILABLE));
}

void *rp_alloc(size_t size)
{
    void *p = calloc(1, size ? size : 1);
    if (!p)
        rp_out_of_memory(size);
    return p;
}

void *rp_realloc(void *p, size_t size)
{
    void *q = realloc(p, size ? size : 1);
    if (!q)
        rp_out_of_memory(size);
    return q;
}

char *rp_strdup(const char *s)
{
    size_t n = strlen(s) + 1;
    return memcpy(rp_alloc(n), s, n);
}

char *rp_asprintf(const char *fmt, ...)
{
    char *out;
    RP_ASPRINTF_ARGS(out, fmt);
    return out;
}

char *rp_quote(const char *text)
{
    char *out = rp_alloc(2 * strlen(text) + 3), *o = out;
    *o++ = '"';
    for (; *text; *o++ = *text++)
        if (*text == '"' || *text == '\\')
            *o++ = '\\';
    *o = '"';
    rp_sanitize(out);
    return out;
}

void rp_freep(void *pp)
{
    free(*(void **)pp);
}

int rp_fd_take(int *fd)
{
    int taken = *fd;
    *fd = -1;
    return taken;
}

int rp_fd_high(int fd)
{
    int high = fcntl(fd, F_DUPFD_CLOEXEC, 10);
    if (high < 0 && errno == EINVAL) /* fewer than ten descriptors are allowed */
        errno = EMFILE;
    return high;
}

void rp_closep(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void rp_buf_fini(struct rp_buf *b)
{
    free(b->data);
    *b = (struct rp_buf){0};
}

/* Room for `more` bytes and the NUL. */
static void reserve(struct rp_buf *b, size_t more)
{
    if (more >= SIZE_MAX / 2 - b->size)
        rp_out_of_memory(more);
    size_t need = b->size + more + 1;
    if (need <= b->cap)
        return;
    size_t cap = b->cap ? b->cap : 64;
    while (cap < need)
        cap *= 2;
    b->data = rp_realloc(b->data, cap);
    b->cap = cap;
}

void rp_buf_add(struct rp_buf *b, const void *data, size_t size)
{
    reserve(b, size);
    if (size)
        memcpy(b->data + b->size, data, size);
    b->size += size;
    b->data[b->size] = 0;
}

void rp_buf_puts(struct rp_buf *b, const char *s)
{
    rp_buf_add(b, s, strlen(s));
}

void rp_buf_printf(struct rp_buf *b, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    reserve(b, 64); /* most texts are shorter, and are made once */
    size_t room = b->cap - b->size;
    int n = vsnprintf(b->data + b->size, room, fmt, ap);
    va_end(ap);
    RP_BUG_IF(n < 0);
    if ((size_t)n >= room) {
        reserve(b, (size_t)n);
        vsnprintf(b->data + b->size, (size_t)n + 1, fmt, again);
    }
    va_end(again);
    b->size += (size_t)n;
}

const char *rp_buf_text(const struct rp_buf *b)
{
    return b->data ? b->data : "";
}

int rp_buf_is(const struct rp_buf *b, const void *data, size_t size)
{
    return b->size == size && (size == 0 || memcmp(b->data, data, size) == 0);
}

char *rp_buf_take(struct rp_buf *b)
{
    reserve(b, 0);
    char *data = b->data;
    data[b->size] = 0;
    *b = (struct rp_buf){0};
    return data;
}

int rp_open_regular(const char *path, struct rp_err *err)
{
    /* O_NONBLOCK: opening a FIFO must not wait for a writer */
    RP_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return rp_fail(err, RP_IO, "cannot open '%s': %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return rp_fail(err, RP_IO, "'%s' is %s, expected a regular file", path,
                       S_ISDIR(st.st_mode) ? "a directory" : "a device or a pipe");
    return rp_fd_take(&fd);
}

int rp_read_file(struct rp_buf *out, const char *path, size_t limit, struct rp_err *err)
{
    RP_FD fd = rp_open_regular(path, err);
    return fd < 0 ? -1 : rp_read_opened(out, fd, path, limit, err);
}

int rp_read_opened(struct rp_buf *out, int fd, const char *path, size_t limit, struct rp_err *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return rp_fail(err, RP_IO, "cannot read '%s': %s", path, strerror(errno));
    size_t start = out->size;
    for (;;) {
        /* st_size is a hint only: it is 0 for files in /proc, and other files grow */
        size_t got = out->size - start, want = 65536;
        if (st.st_size > 0 && (size_t)st.st_size >= got)
            want = (size_t)st.st_size - got + 1;
        if (want > limit - got + 1)
            want = limit - got + 1;
        reserve(out, want);
        ssize_t n = RP_RETRY(read(fd, out->data + out->size, want));
        if (n < 0)
            return rp_fail(err, RP_IO, "cannot read '%s': %s", path, strerror(errno));
        out->size += (size_t)n;
        out->data[out->size] = 0;
        if (n == 0)
            return 0;
        if (out->size - start > limit)
            return rp_fail(err, RP_MALFORMED, "'%s' is larger than the limit of %zu bytes for such a file", path,
                           limit);
    }
}

ssize_t rp_pread_all(int fd, void *out, size_t size, uint64_t offset)
{
    size_t done = 0;
    while (done < size) {
        ssize_t n = RP_RETRY(pread(fd, (char *)out + done, size - done, (off_t)(offset + done)));
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

int rp_write_all(int fd, const void *data, size_t size)
{
    const char *p = data;
    while (size) {
        ssize_t n = RP_RETRY(write(fd, p, size));
        if (n < 0)
            return -1;
        p += n;
        size -= (size_t)n;
    }
    return 0;
}

/* Creates a file next to `path`. The mode is subject to the umask, as for any new file. */
static int open_temporary(const char *path, mode_t mode, char **name)
{
    for (int i = 0; i < 100; i++) {
        *name = rp_asprintf("%s.tmp-%ld-%d", path, (long)getpid(), i);
        int fd = open(*name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
        if (fd >= 0 || errno != EEXIST)
            return fd;
        free(*name);
        *name = NULL;
    }
    return -1;
}

char *rp_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? rp_asprintf("%.*s", (int)(slash - path) + (slash == path), path) : rp_strdup(".");
}

char *rp_path_next_to(const char *file, const char *path)
{
    const char *slash = strrchr(file, '/');
    return *path == '/' || !slash ? rp_strdup(path) : rp_asprintf("%.*s%s", (int)(slash + 1 - file), file, path);
}

void rp_sync_directory_of(const char *path)
{
    RP_FREE char *dir = rp_folder_of(path);
    RP_FD fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        fsync(fd);
}

int rp_publish(const char *tmp, const char *path)
{
    if (link(tmp, path) == 0) {
        unlink(tmp);
        return 0;
    }
    if (errno == EEXIST)
        return -1;
    /* a file system without hard links: reserve the name with an empty file, then replace that */
    RP_FD fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -1;
    if (rename(tmp, path) == 0)
        return 0;
    int e = errno;
    unlink(path);
    errno = e;
    return -1;
}

static int write_and_name(const char *path, const void *data, size_t size, mode_t mode,
                          int (*give_name)(const char *, const char *))
{
    RP_FREE char *name = NULL;
    RP_FD fd = open_temporary(path, mode, &name);
    if (fd < 0)
        return -1;
    if (rp_write_all(fd, data, size) < 0 || fsync(fd) < 0 || give_name(name, path) < 0) {
        int e = errno;
        unlink(name);
        errno = e;
        return -1;
    }
    rp_sync_directory_of(path);
    return 0;
}

/* Why a symbolic link must not be followed: it is dangling, or another user's
 * in a directory where everybody may write. */
static const char *bad_link(const char *path, int exists)
{
    struct stat link, dir;
    RP_FREE char *parent = rp_folder_of(path);
    if (lstat(path, &link) < 0 || !S_ISLNK(link.st_mode))
        return NULL;
    if (!exists)
        return "it is a symbolic link to something that is not there";
    int shared = stat(parent, &dir) < 0 || ((dir.st_mode & S_ISVTX) && (dir.st_mode & S_IWOTH));
    if (shared && link.st_uid != geteuid() && link.st_uid != dir.st_uid)
        return "it is a symbolic link of another user";
    return NULL;
}

int rp_write_file(const char *path, const void *data, size_t size, mode_t mode, struct rp_err *err)
{
    struct stat st;
    int exists = stat(path, &st) == 0, failed;
    const char *why_not = bad_link(path, exists);
    if (why_not)
        return rp_fail(err, RP_IO, "cannot write '%s': %s", path, why_not);
    if (exists && !S_ISREG(st.st_mode) && !S_ISCHR(st.st_mode)) /* a pipe would wait for a reader */
        return rp_fail(err, RP_IO, "cannot write '%s': it is %s", path,
                       S_ISDIR(st.st_mode) ? "a directory" : "not a regular file");
    if (exists && S_ISCHR(st.st_mode)) { /* /dev/null, a terminal: never replaced */
        RP_FD fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
        failed = fd < 0 || rp_write_all(fd, data, size) < 0;
    } else {
        RP_FREE char *target = exists ? realpath(path, NULL) : NULL; /* a symbolic link stays one */
        mode &= exists ? st.st_mode : mode; /* never wider than the mode of the file that is replaced */
        failed = write_and_name(target ? target : path, data, size, mode, rename) < 0;
    }
    return failed ? rp_fail(err, RP_IO, "cannot write '%s': %s", path, strerror(errno)) : 0;
}

int rp_write_new_file(const char *path, const void *data, size_t size, mode_t mode, struct rp_err *err)
{
    if (write_and_name(path, data, size, mode, rp_publish) == 0)
        return 0;
    return rp_fail(err, errno == EEXIST ? RP_USAGE : RP_IO, "cannot write '%s': %s", path, strerror(errno));
}

int rp_mkdirs(const char *path, mode_t mode, struct rp_err *err)
{
    RP_FREE char *p = rp_strdup(path);
    struct stat st;
    for (char *s = p; *s;) {
        s += strspn(s, "/");
        s += strcspn(s, "/");
        char c = *s;
        *s = 0;
        if (mkdir(p, mode) < 0) {
            int e = errno; /* EROFS and EACCES are fine too for a parent that exists */
            const int is_directory = stat(p, &st) == 0 && S_ISDIR(st.st_mode);
            errno = e == EEXIST ? ENOTDIR : e;
            if (!is_directory)
                return rp_fail(err, RP_IO, "cannot make directory '%s': %s", p, strerror(errno));
        }
        *s = c;
    }
    return 0;
}

char *rp_store_path(const char *store, int *named)
{
    const char *env = getenv("REPRO_STORE"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (!store || !*store)
        store = env && *env ? env : NULL;
    if (named)
        *named = store != NULL;
    if (store)
        return rp_strdup(store);
    if (cache && *cache == '/') /* the XDG specification has relative paths ignored */
        return rp_asprintf("%s/repro", cache);
    if (home && *home == '/')
        return rp_asprintf("%s/.cache/repro", home);
    return rp_asprintf("/tmp/repro-%ld", (long)geteuid());
}

void rp_hex(char *out, const void *data, size_t n)
{
    static const char digit[] = "0123456789abcdef";
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digit[p[i] >> 4];
        out[2 * i + 1] = digit[p[i] & 15];
    }
    out[2 * n] = 0;
}

int rp_unhex(void *out, size_t n, const char *hex)
{
    unsigned char *p = out;
    for (size_t i = 0; i < n; i++) {
        const int hi = rp_hex_digit_any(hex[2 * i]);
        const int lo = hi < 0 ? -1 : rp_hex_digit_any(hex[2 * i + 1]);
        if (lo < 0)
            return -1;
        p[i] = (unsigned char)(hi << 4 | lo);
    }
    return hex[2 * n] ? -1 : 0;
}

static const char base64_digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void rp_base64(struct rp_buf *out, const void *data, size_t n)
{
    const unsigned char *p = data;
    reserve(out, (n + 2) / 3 * 4);
    for (size_t i = 0; i < n; i += 3) {
        uint32_t w = (uint32_t)p[i] << 16 | (i + 1 < n ? (uint32_t)p[i + 1] << 8 : 0) | (i + 2 < n ? p[i + 2] : 0u);
        char four[4] = {base64_digit[w >> 18], base64_digit[w >> 12 & 63], i + 1 < n ? base64_digit[w >> 6 & 63] : '=',
                        i + 2 < n ? base64_digit[w & 63] : '='};
        rp_buf_add(out, four, 4);
    }
    rp_buf_add(out, "", 0);
}

static int base64_value(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

/* One encoding per value: bits that padding leaves over must be zero, or a changed
 * byte would decode to the same bytes. */
int rp_unbase64(struct rp_buf *out, const char *text, size_t n)
{
    if (n % 4)
        return -1;
    size_t pad = n && text[n - 1] == '=' ? 1 + (text[n - 2] == '=') : 0;
    reserve(out, n / 4 * 3);
    for (size_t i = 0; i < n; i += 4) {
        size_t have = i + 4 == n ? 4 - pad : 4;
        uint32_t w = 0;
        for (size_t k = 0; k < 4; k++) {
            int v = k < have ? base64_value(text[i + k]) : 0;
            if (v < 0)
                return -1;
            w = w << 6 | (uint32_t)v;
        }
        if (w & (have == 2 ? 0xffffu : have == 3 ? 0xffu : 0u))
            return -1;
        unsigned char three[3] = {(unsigned char)(w >> 16), (unsigned char)(w >> 8), (unsigned char)w};
        rp_buf_add(out, three, have - 1);
    }
    rp_buf_add(out, "", 0);
    return 0;
}

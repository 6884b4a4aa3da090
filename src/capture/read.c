/* Reading below the root: bounded, never blocking, never out of a recorded tree, and noted in the record that is being
 * written. */
#include "capture/record.h"

#include "base/json.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

/* openat2(2), so that links inside a recorded tree stay inside it. Spelled out: old kernel headers lack it. */
struct how {
    uint64_t flags, mode, resolve;
};
enum { RESOLVE_INSIDE_ROOT = 0x10, SYS_OPENAT2 = 437 };

static int open_below(const struct rp_probe *p, const char *path, int flags)
{
    char place[PATH_MAX];
    flags |= O_RDONLY | O_CLOEXEC;
    while (*path == '/')
        path++;
    if (p->root < 0) {
        errno = ENOENT;
        return -1;
    }
    if (p->live)
        return openat(p->root, path, flags);
    struct how how = {.flags = (uint64_t)flags, .resolve = RESOLVE_INSIDE_ROOT};
    int fd = (int)syscall(SYS_OPENAT2, p->root, path, &how, sizeof how);
    if (fd >= 0 || (errno != ENOSYS && errno != EPERM && errno != EINVAL))
        return fd;
    if (rp_resolve(p->root, path, (flags & O_NOFOLLOW) == 0, place, NULL, NULL) < 0)
        return -1;
    return openat(p->root, place + 1, flags | O_NOFOLLOW);
}

static enum rp_state state_of(int error)
{
    if (error == ENOENT || error == ENOTDIR || error == ENODEV || error == ENXIO)
        return RP_STATE_ABSENT;
    return error == EACCES || error == EPERM ? RP_STATE_DENIED : RP_STATE_ERROR;
}

int rp_probe_open(const struct rp_probe *p, const char *path, enum rp_state *state, const char **detail)
{
    struct stat st;
    int fd = open_below(p, path, O_NONBLOCK | O_NOCTTY);
    *state = RP_STATE_OK;
    if (fd < 0) {
        *state = state_of(errno);
        *detail = "cannot be opened";
    } else if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        *state = RP_STATE_ERROR;
        *detail = "no regular file";
        rp_closep(&fd);
        fd = -1;
    }
    return fd;
}

int rp_probe_exists(const struct rp_probe *p, const char *path)
{
    RP_FD fd = open_below(p, path, O_PATH); /* which does not wake the driver of a device */
    int there = fd >= 0 || state_of(errno) != RP_STATE_ABSENT;
    if (there && p->record) {
        char target[PATH_MAX];
        rp_record_name(p->record, path);
        if (rp_resolve(p->root, path, 1, target, NULL, NULL) == 0) /* a link is there when what it leads to is */
            rp_record_name(p->record, target);
    }
    return there;
}

/* The recorded reason why a path could not be read; 1 if there is one. */
static int recorded_state(const struct rp_probe *p, const char *path, enum rp_state *state, const char **detail)
{
    const json_t *s = p->recorded ? json_object_get(json_object_get(p->recorded, "states"), path) : NULL;
    if (!s)
        return 0;
    const json_t *why = json_object_get(s, "detail");
    *state = rp_state_named(json_string_value(json_object_get(s, "state")));
    *detail = rp_is_line(why) && json_string_length(why) ? json_string_value(why) : NULL;
    if (*state == RP_STATE_OK || (*state == RP_STATE_ERROR && !*detail)) {
        *state = RP_STATE_ERROR;
        *detail = "the record does not say why";
    }
    return 1;
}

/* ---- files ---- */

void rp_text_fini(struct rp_text *t)
{
    rp_buf_fini(&t->bytes);
}

static void read_bytes(struct rp_text *t, const struct rp_probe *p)
{
    char block[16384];
    RP_FD fd = rp_probe_open(p, t->path, &t->state, &t->detail);
    rp_buf_add(&t->bytes, "", 0);
    while (t->state == RP_STATE_OK) {
        ssize_t n = RP_RETRY(read(fd, block, sizeof block));
        if (n < 0) {
            t->state = state_of(errno);
            t->detail = "cannot be read";
        } else if (n == 0) {
            break;
        } else if (t->bytes.size + (size_t)n > RP_FILE_MAX) {
            t->state = RP_STATE_ERROR;
            t->detail = "too large";
        } else {
            rp_buf_add(&t->bytes, block, (size_t)n);
        }
    }
    if (t->state != RP_STATE_OK)
        rp_buf_fini(&t->bytes);
}

void rp_text_read_unrecorded(struct rp_text *t, const struct rp_probe *p, const char *path)
{
    *t = (struct rp_text){.path = path};
    if (!recorded_state(p, path, &t->state, &t->detail))
        read_bytes(t, p);
}

void rp_text_read_as(struct rp_text *t, const struct rp_probe *p, const char *path, rp_redact *redact)
{
    rp_text_read_unrecorded(t, p, path);
    if (t->state == RP_STATE_OK && redact)
        redact(p, &t->bytes);
    if (p->record)
        rp_record_text(p->record, t, (const void *)redact);
}

void rp_text_read_lines(struct rp_text *t, const struct rp_probe *p, const char *path, rp_redact_line *line)
{
    rp_text_read_unrecorded(t, p, path);
    if (t->state == RP_STATE_OK) {
        RP_BUF old = t->bytes;
        t->bytes = (struct rp_buf){0};
        rp_buf_add(&t->bytes, "", 0);
        for (char *at = old.data, *end = old.data + old.size; at < end;) {
            char *stop = memchr(at, '\n', (size_t)(end - at));
            stop = stop ? stop : end; /* the buffer's own NUL */
            *stop = 0;
            line(p, &t->bytes, at);
            at = stop + 1;
        }
    }
    if (p->record)
        rp_record_text(p->record, t, (const void *)line);
}

void rp_text_read(struct rp_text *t, const struct rp_probe *p, const char *path)
{
    rp_text_read_as(t, p, path, NULL);
}

void rp_link_read(struct rp_text *t, const struct rp_probe *p, const char *path)
{
    char target[PATH_MAX];
    *t = (struct rp_text){.path = path};
    if (recorded_state(p, path, &t->state, &t->detail))
        return;
    RP_FD fd = open_below(p, path, O_PATH | O_NOFOLLOW);
    ssize_t n = fd < 0 ? -1 : readlinkat(fd, "", target, sizeof target);
    if (n >= 0 && (size_t)n < sizeof target) {
        rp_buf_add(&t->bytes, target, (size_t)n);
    } else if (n >= 0 || (fd >= 0 && (errno == ENOENT || errno == EINVAL))) { /* readlinkat(2) on other files */
        t->state = RP_STATE_ERROR;
        t->detail = n >= 0 ? "too long" : "no symbolic link";
    } else {
        t->state = state_of(errno);
        t->detail = "cannot be read";
    }
    if (p->record)
        rp_record_link(p->record, t);
}

char *rp_text_line(struct rp_text *t, char **at)
{
    if (t->state != RP_STATE_OK || !t->bytes.data)
        return NULL;
    char *end = t->bytes.data + t->bytes.size;
    char *line = *at ? *at : t->bytes.data;
    if (line >= end)
        return NULL;
    char *stop = memchr(line, '\n', (size_t)(end - line));
    if (!stop)
        stop = end; /* the buffer's own NUL */
    *stop = 0;
    *at = stop + 1;
    return line;
}

static int is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\0';
}

char *rp_trimmed(const char *s, size_t n)
{
    while (n && is_blank(*s)) {
        s++;
        n--;
    }
    while (n && is_blank(s[n - 1]))
        n--;
    return rp_asprintf("%.*s", (int)n, s);
}

char *rp_text_field(const struct rp_text *t, const char *key, char separator)
{
    size_t len = strlen(key);
    if (t->state != RP_STATE_OK || !t->bytes.data)
        return NULL;
    const char *p = t->bytes.data, *end = p + t->bytes.size;
    while (p < end) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        if (!stop)
            stop = end;
        if ((size_t)(stop - p) > len && memcmp(p, key, len) == 0) {
            const char *v = p + len;
            while (v < stop && (*v == ' ' || *v == '\t'))
                v++;
            if (v < stop && *v == separator)
                return stop - v <= (long)RP_LINE_MAX * 4 ? rp_trimmed(v + 1, (size_t)(stop - v - 1)) : NULL;
        }
        p = stop + 1;
    }
    return NULL;
}

/* node2 before node10 */
static int by_name(const void *a, const void *b)
{
    return strverscmp(*(char *const *)a, *(char *const *)b);
}

void rp_dirlist_read(struct rp_dirlist *d, const struct rp_probe *p, const char *path, int max)
{
    *d = (struct rp_dirlist){0};
    if (recorded_state(p, path, &d->state, &d->detail))
        return;
    int fd = open_below(p, path, O_DIRECTORY | O_NONBLOCK);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        d->state = state_of(errno);
        d->detail = "cannot be listed";
        rp_closep(&fd);
    } else {
        d->name = rp_alloc(((size_t)max + 1) * sizeof *d->name);
        for (struct dirent *e; d->n < max && (e = readdir(dir));)
            if (e->d_name[0] != '.')
                d->name[d->n++] = rp_strdup(e->d_name);
        closedir(dir);
        qsort(d->name, (size_t)d->n, sizeof *d->name, by_name);
    }
    if (p->record)
        rp_record_dirlist(p->record, path, d);
}

void rp_dirlist_free(struct rp_dirlist *d)
{
    for (int i = 0; i < d->n; i++)
        free(d->name[i]);
    free(d->name);
    *d = (struct rp_dirlist){0};
}

/* ---- facts that are not in files ---- */

json_t *rp_probe_query(const struct rp_probe *p, const char *what, const char *arg, rp_query *ask)
{
    return rp_probe_query_as(p, what, arg, arg, ask);
}

json_t *rp_probe_query_as(const struct rp_probe *p, const char *what, const char *arg, const char *shown, rp_query *ask)
{
    RP_FREE char *key = rp_asprintf("%s%s%s", what, shown ? " " : "", shown ? shown : "");
    json_t *answer =
        p->live ? ask(p, arg) : json_deep_copy(json_object_get(json_object_get(p->recorded, "answers"), key));
    if (p->record && answer)
        rp_record_answer(p->record, key, answer);
    return answer;
}

static json_t *ask_file_system(const struct rp_probe *p, const char *path)
{
    struct statvfs s;
    (void)p;
    if (!path || statvfs(path, &s) < 0 || s.f_blocks > INT64_MAX / (s.f_frsize ? s.f_frsize : 1))
        return NULL;
    return json_pack("{s:I, s:I}", "total", (json_int_t)s.f_blocks * (json_int_t)s.f_frsize, "free",
                     (json_int_t)s.f_bavail * (json_int_t)s.f_frsize);
}

int rp_probe_query_space(const struct rp_probe *p, const char *path, int64_t *total, int64_t *available)
{
    RP_JSON *json = rp_probe_query(p, "space", path, ask_file_system);
    RP_READ(space_answer, answer, json);
    const int known = answer.total != RP_NO_INTEGER && answer.free != RP_NO_INTEGER;
    *total = known ? answer.total : 0;
    *available = known ? answer.free : 0;
    return known ? 0 : -1;
}

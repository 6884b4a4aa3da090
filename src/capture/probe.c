#include "capture/probe.h"

#include "base/hash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- reading below the root ---- */

/* openat2(2), so that links inside a recorded tree stay inside it. Spelled out: old kernel headers lack it. */
struct how {
    uint64_t flags, mode, resolve;
};
enum { RESOLVE_INSIDE_ROOT = 0x10, SYS_OPENAT2 = 437 };

static int open_below(const struct rp_probe *p, const char *path, int flags)
{
    flags |= O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    while (*path == '/')
        path++;
    if (p->root < 0) {
        errno = ENOENT;
        return -1;
    }
    if (!p->live) {
        struct how how = {.flags = (uint64_t)flags, .resolve = RESOLVE_INSIDE_ROOT};
        int fd = (int)syscall(SYS_OPENAT2, p->root, path, &how, sizeof how);
        if (fd >= 0 || (errno != ENOSYS && errno != EPERM && errno != EINVAL))
            return fd;
    }
    return openat(p->root, path, flags);
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
    int fd = open_below(p, path, 0);
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
    enum rp_state state;
    const char *detail;
    int fd = rp_probe_open(p, path, &state, &detail);
    rp_closep(&fd);
    return state != RP_STATE_ABSENT;
}

void rp_text_fini(struct rp_text *t)
{
    rp_buf_fini(&t->bytes);
}

void rp_text_read(struct rp_text *t, const struct rp_probe *p, const char *path)
{
    char block[16384];
    *t = (struct rp_text){.path = path};
    RP_FD fd = rp_probe_open(p, path, &t->state, &t->detail);
    rp_buf_add(&t->bytes, "", 0);
    while (t->state == RP_STATE_OK) {
        ssize_t n = read(fd, block, sizeof block);
        if (n < 0 && errno == EINTR)
            continue;
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

static char *trimmed(const char *s, size_t n)
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
                return stop - v <= (long)RP_LINE_MAX * 4 ? trimmed(v + 1, (size_t)(stop - v - 1)) : NULL;
        }
        p = stop + 1;
    }
    return NULL;
}

static int by_name(const void *a, const void *b)
{
    const char *x = *(char *const *)a, *y = *(char *const *)b;
    size_t n = strlen(x), m = strlen(y);
    return n != m && strspn(x, "abcdefghijklmnopqrstuvwxyz") == strspn(y, "abcdefghijklmnopqrstuvwxyz") &&
                   strncmp(x, y, strspn(x, "abcdefghijklmnopqrstuvwxyz")) == 0 && x[n - 1] <= '9' && y[m - 1] <= '9'
               ? (n > m) - (n < m) /* node2 before node10 */
               : strcmp(x, y);
}

void rp_names_read(struct rp_names *d, const struct rp_probe *p, const char *path, int max)
{
    *d = (struct rp_names){0};
    int fd = open_below(p, path, O_DIRECTORY);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        d->state = state_of(errno);
        rp_closep(&fd);
        return;
    }
    d->name = rp_alloc(((size_t)max + 1) * sizeof *d->name);
    for (struct dirent *e; d->n < max && (e = readdir(dir));)
        if (e->d_name[0] != '.')
            d->name[d->n++] = rp_strdup(e->d_name);
    closedir(dir);
    qsort(d->name, (size_t)d->n, sizeof *d->name, by_name);
}

void rp_names_free(struct rp_names *d)
{
    for (int i = 0; i < d->n; i++)
        free(d->name[i]);
    free(d->name);
    *d = (struct rp_names){0};
}

/* ---- values ---- */

void rp_put(json_t *obj, const char *name, enum rp_state state, json_t *value, const char *source, const char *unit,
            const char *detail)
{
    static const char *const states[] = {"ok", "absent", "denied", "error"};
    json_t *v = json_pack("{s:s, s:s}", "state", states[state], "source", source);
    json_object_set_new(v, "value", value ? value : json_null());
    if (unit)
        json_object_set_new(v, "unit", json_string(unit));
    if (detail)
        json_object_set_new(v, "detail", json_string(detail));
    json_object_set_new(obj, name, v);
}

static int is_text(const char *s)
{
    for (const unsigned char *p = (const unsigned char *)s; *p; p++)
        if (*p < 0x20 || *p == 0x7f || (*p == 0xc2 && p[1] < 0xa0)) /* C0, DEL, C1: never sent to a terminal */
            return 0;
    return 1;
}

void rp_put_str(json_t *obj, const char *name, const char *value, const char *source)
{
    size_t n = strlen(value);
    json_t *v = n <= RP_LINE_MAX && is_text(value) ? json_string(value) : NULL; /* NULL for malformed UTF-8 too */
    if (v)
        rp_put(obj, name, RP_STATE_OK, v, source, NULL, NULL);
    else
        rp_put(obj, name, RP_STATE_ERROR, NULL, source, NULL, n > RP_LINE_MAX ? "too long" : "not a line of text");
}

void rp_put_int(json_t *obj, const char *name, int64_t value, const char *source, const char *unit)
{
    rp_put(obj, name, RP_STATE_OK, json_integer(value), source, unit, NULL);
}

void rp_put_real(json_t *obj, const char *name, double value, const char *source, const char *unit)
{
    rp_put(obj, name, RP_STATE_OK, json_real(value), source, unit, NULL);
}

void rp_put_absent(json_t *obj, const char *name, const char *source)
{
    rp_put(obj, name, RP_STATE_ABSENT, NULL, source, NULL, NULL);
}

void rp_put_state(json_t *obj, const char *name, const struct rp_text *t)
{
    if (t->state == RP_STATE_OK)
        rp_put_absent(obj, name, t->path);
    else
        rp_put(obj, name, t->state, NULL, t->path, NULL, t->state == RP_STATE_ERROR ? t->detail : NULL);
}

void rp_hide(const struct rp_probe *p, const char *name, const char *value, char out[72])
{
    RP_BUF text = {0};
    rp_buf_printf(&text, "%s%c%s.%s%c%s", p->salt, 0, p->name, name, 0, value);
    memcpy(out, "sha256:", 7);
    rp_sha256_hex(out + 7, text.data, text.size);
}

void rp_put_hidden(const struct rp_probe *p, json_t *obj, const char *name, const char *value, const char *source)
{
    char hidden[72];
    rp_hide(p, name, value, hidden);
    rp_put_str(obj, name, p->opts->identify ? value : hidden, source);
}

/* One line of a file, without blanks around it; NULL (and the value put) when there is none. */
static char *one_line(const struct rp_probe *p, json_t *obj, const char *name, const char *path)
{
    RP_TEXT t;
    rp_text_read(&t, p, path);
    if (t.state != RP_STATE_OK) {
        rp_put_state(obj, name, &t);
        return NULL;
    }
    if (t.bytes.size > RP_LINE_MAX || memchr(t.bytes.data, 0, t.bytes.size)) {
        rp_put(obj, name, RP_STATE_ERROR, NULL, path, NULL, t.bytes.size > RP_LINE_MAX ? "too long" : "not a line of text");
        return NULL;
    }
    return trimmed(t.bytes.data, t.bytes.size);
}

void rp_put_line(const struct rp_probe *p, json_t *obj, const char *name, const char *path)
{
    RP_FREE char *line = one_line(p, obj, name, path);
    if (line)
        rp_put_str(obj, name, line, path);
}

int rp_parse_count(const char *text, int64_t *out)
{
    char *end;
    text += strspn(text, " \t");
    if (*text < '0' || *text > '9')
        return -1;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return errno || end[strspn(end, " \t\n")] ? -1 : 0;
}

void rp_put_number(const struct rp_probe *p, json_t *obj, const char *name, const char *path, int64_t scale, const char *unit)
{
    int64_t n;
    RP_FREE char *line = one_line(p, obj, name, path);
    if (!line)
        return;
    if (rp_parse_count(line, &n) == 0 && n <= INT64_MAX / scale)
        rp_put_int(obj, name, n * scale, path, unit);
    else
        rp_put(obj, name, RP_STATE_ERROR, NULL, path, unit, "not a number");
}

void rp_put_limit(const struct rp_probe *p, json_t *obj, const char *name, const char *path, const char *unit)
{
    int64_t n;
    RP_FREE char *line = one_line(p, obj, name, path);
    if (!line)
        return;
    if (strcmp(line, "max") == 0)
        rp_put_str(obj, name, "max", path);
    else if (rp_parse_count(line, &n) == 0)
        rp_put_int(obj, name, n, path, unit);
    else
        rp_put(obj, name, RP_STATE_ERROR, NULL, path, unit, "neither a number nor 'max'");
}

void rp_put_cpus(const struct rp_probe *p, json_t *obj, const char *name, const char *path)
{
    RP_FREE char *line = one_line(p, obj, name, path);
    if (line && rp_parse_cpus(line, NULL, RP_MAX_CPUS) >= 0)
        rp_put_str(obj, name, line, path);
    else if (line)
        rp_put(obj, name, RP_STATE_ERROR, NULL, path, NULL, "not a list like 0-3,8");
}

void rp_put_selected(const struct rp_probe *p, json_t *obj, const char *name, const char *path)
{
    RP_FREE char *line = one_line(p, obj, name, path);
    char *open = line ? strchr(line, '[') : NULL, *close = open ? strchr(open, ']') : NULL;
    if (close) {
        *close = 0;
        rp_put_str(obj, name, open + 1, path);
    } else if (line)
        rp_put(obj, name, RP_STATE_ERROR, NULL, path, NULL, "nothing is selected with []");
}

int rp_parse_cpus(const char *text, int *out, int max)
{
    int n = 0;
    for (const char *p = text; *p && *p != '\n';) {
        char *end;
        long from = strtol(p, &end, 10), to = from;
        if (end == p || *p < '0' || *p > '9')
            return -1;
        if (*end == '-' && end[1] >= '0' && end[1] <= '9')
            to = strtol(end + 1, &end, 10);
        if (from > to || to >= RP_MAX_CPUS || n + (to - from + 1) > max)
            return -1;
        for (long c = from; c <= to; c++, n++)
            if (out)
                out[n] = (int)c;
        if (*end != ',' && *end != 0 && *end != '\n')
            return -1;
        p = end + (*end == ',');
    }
    return n;
}

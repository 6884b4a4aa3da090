#include "data/files.h"

#include "base/buf.h"
#include "base/foreign.h"
#include "base/hash.h"
#include "base/interrupt.h"
#include "data/archive.h"
#include "data/embedded_data.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void files_add(struct rp_files *f, char *name, unsigned char *data, uint64_t size)
{
    if ((f->n & (f->n - 1)) == 0) /* room doubles at every power of two */
        f->file = rp_realloc(f->file, (f->n ? 2 * (size_t)f->n : 1) * sizeof *f->file);
    f->file[f->n++] = (struct rp_file){.name = name, .fd = -1, .data = data, .size = size};
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct rp_file *)a)->name, ((const struct rp_file *)b)->name);
}

/* Adds a path, which must be a regular file; owns name. */
static int add_path(struct rp_files *f, char *name, struct rp_err *err)
{
    struct stat st = {0};
    int failed = 0;
    if (f->n >= RP_FILES_MAX)
        failed = rp_fail(err, RP_MALFORMED, "more than %d files", RP_FILES_MAX);
    else if (stat(name, &st) < 0)
        failed = rp_fail(err, RP_IO, "cannot read '%s': %s", name, strerror(errno));
    else if (!S_ISREG(st.st_mode))
        failed = rp_fail(err, RP_IO, "'%s' is not a regular file", name);
    if (failed) {
        free(name);
        return -1;
    }
    files_add(f, name, NULL, (uint64_t)st.st_size);
    return 0;
}

static int has_in_name(const char *name, const char *in_name)
{
    char part[32];
    for (const char *p = in_name; *p; p += strcspn(p, "|"), p += *p == '|') {
        snprintf(part, sizeof part, "%.*s", (int)strcspn(p, "|"), p);
        if (strstr(name, part))
            return 1;
    }
    return 0;
}

/* Adds the files of one directory with in_name in their names. *only: the sole directory in it, NULL if there is none
 * or several. */
static int scan_directory(struct rp_files *f, const char *dir, const char *in_name, char **only, struct rp_err *err)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    struct stat st;
    int failed = 0, dirs = 0;
    *only = NULL;
    if (!d)
        return rp_fail(err, RP_IO, "cannot open directory '%s': %s", dir, strerror(errno));
    while (!failed && (errno = 0, (e = readdir(d)) != NULL)) {
        if (e->d_name[0] == '.')
            continue;
        char *path = rp_asprintf("%s%s%s", dir, dir[strlen(dir) - 1] == '/' ? "" : "/", e->d_name);
        mode_t mode = stat(path, &st) == 0 ? st.st_mode : 0;
        /* one that cannot be read is not left out: fewer samples are other data */
        if (!S_ISDIR(mode) && has_in_name(e->d_name, in_name)) {
            failed = add_path(f, path, err);
            continue;
        }
        if (S_ISDIR(mode) && dirs++ == 0)
            *only = path;
        else
            free(path);
    }
    if (!failed && errno)
        failed = rp_fail(err, RP_IO, "cannot read directory '%s': %s", dir, strerror(errno));
    closedir(d);
    if (failed || dirs > 1) {
        free(*only);
        *only = NULL;
    }
    return failed ? -1 : 0;
}

static int open_directory(struct rp_files *f, const char *dir, const char *in_name, struct rp_err *err)
{
    RP_FREE char *only = NULL, *none = NULL;
    if (scan_directory(f, dir, in_name, &only, err) < 0)
        return -1;
    if (f->n == 0 && only && scan_directory(f, only, in_name, &none, err) < 0)
        return -1;
    RP_BUF names = {0};
    for (const char *p = in_name; f->n == 0 && *p; p++)
        rp_buf_printf(&names, *p == '|' ? "' or '" : "%c", *p);
    if (f->n == 0)
        return rp_fail(
            err, RP_IO,
            "directory '%s' has no file with '%s' in its name, as this data.format has them: choose another format, or "
            "name the files by a quoted glob, such as '%s/*'",
            dir, rp_buf_text(&names), dir);
    return 0;
}

static int open_glob(struct rp_files *f, const char *pattern, struct rp_err *err)
{
    glob_t g = {0};
    struct stat st;
    int rc = glob(pattern, GLOB_NOSORT | GLOB_ERR, NULL, &g), failed = 0;
    if (rc == GLOB_NOMATCH)
        failed = rp_fail(err, RP_IO, "no file matches '%s'", pattern);
    else if (rc)
        failed = rp_fail(err, RP_IO, "cannot expand '%s': %s", pattern, strerror(errno));
    for (size_t i = 0; !failed && i < g.gl_pathc; i++)
        if (stat(g.gl_pathv[i], &st) < 0 || !S_ISDIR(st.st_mode))
            failed = add_path(f, rp_strdup(g.gl_pathv[i]), err);
    globfree(&g);
    if (!failed && f->n == 0)
        failed = rp_fail(err, RP_IO, "'%s' matches directories only", pattern);
    return failed;
}

#ifdef RP_GPU_WORKER
static int open_embedded(struct rp_files *f, const char *name, const char *in_name, struct rp_err *err)
{
    (void)f;
    (void)in_name;
    return rp_fail(err, RP_IO,
                   "'%s' must be unpacked before a GPU can train on it: give a writable directory with --store", name);
}
#else
static int open_embedded(struct rp_files *f, const char *name, const char *in_name, struct rp_err *err)
{
    struct rp_archive_source s;
    struct rp_archive_member *m;
    int n;
    if (rp_embedded_archive(name, &s) < 0)
        return rp_fail(err, RP_IO, "no archive '%s' is embedded in this program", name);
    if (rp_archive_load(&s, RP_EMBEDDED_MAX, &m, &n, err) < 0)
        return -1;
    for (int i = 0; i < n; i++)
        if (has_in_name(m[i].name, in_name)) {
            files_add(f, rp_asprintf(RP_FILES_EMBEDDED "%s/%s", name, m[i].name), m[i].data, m[i].size);
            m[i].data = NULL;
        }
    rp_archive_members_free(m, n);
    return f->n ? 0 : rp_fail(err, RP_MALFORMED, "archive '%s' has no file with '%s' in its name", name, in_name);
}
#endif

int rp_files_open(struct rp_files *f, const char *path, const char *in_name, struct rp_err *err)
{
    struct stat st;
    int failed, prefix = (int)strlen(RP_FILES_EMBEDDED);
    *f = (struct rp_files){.last = -1};
    if (strncmp(path, RP_FILES_EMBEDDED, (size_t)prefix) == 0)
        failed = open_embedded(f, path + prefix, in_name, err);
    else if (stat(path, &st) == 0)
        failed = S_ISDIR(st.st_mode) ? open_directory(f, path, in_name, err) : add_path(f, rp_strdup(path), err);
    else if (strpbrk(path, "*?["))
        failed = open_glob(f, path, err);
    else
        failed = rp_fail(err, RP_IO, "cannot open '%s': %s", path, strerror(errno));
    if (failed) {
        rp_files_close(f);
        return -1;
    }
    qsort(f->file, (size_t)f->n, sizeof *f->file, by_name);
    return 0;
}

int rp_files_add(struct rp_files *f, char *const *path, int n, struct rp_err *err)
{
    for (int i = 0; i < n; i++)
        if (add_path(f, rp_strdup(path[i]), err) < 0)
            return -1;
    qsort(f->file, (size_t)f->n, sizeof *f->file, by_name);
    return 0;
}

int rp_files_find(const struct rp_files *f, const char *name)
{
    const struct rp_file key = {.name = (char *)name},
                         *found = bsearch(&key, f->file, (size_t)f->n, sizeof *f->file, by_name);
    return found ? (int)(found - f->file) : -1;
}

void rp_files_close(struct rp_files *f)
{
    for (int i = 0; i < f->n; i++) {
        rp_closep(&f->file[i].fd);
        free(f->file[i].name);
        free(f->file[i].data);
    }
    free(f->file);
    *f = (struct rp_files){.last = -1};
}

static int open_file(struct rp_files *f, int i, struct rp_err *err)
{
    struct rp_file *file = &f->file[i];
    struct stat st;
    if (file->fd >= 0)
        return 0;
    if (f->last >= 0)
        rp_closep(&f->file[f->last].fd);
    f->last = i;
    file->fd = open(file->name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (file->fd < 0 || fstat(file->fd, &st) < 0)
        return rp_fail(err, RP_IO, "cannot open '%s': %s", file->name, strerror(errno));
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != file->size)
        return rp_fail(err, RP_IO, "'%s' changed while it was in use: it had %llu bytes", file->name,
                       (unsigned long long)file->size);
    return 0;
}

int rp_files_read(struct rp_files *f, int i, uint64_t offset, void *out, size_t size, struct rp_err *err)
{
    const struct rp_file *file = &f->file[i];
    RP_BUG_IF(offset > file->size || size > file->size - offset);
    if (file->data) {
        memcpy(out, file->data + offset, size);
        return 0;
    }
    if (size == 0) /* an empty file is never opened */
        return 0;
    if (open_file(f, i, err) < 0)
        return -1;
    ssize_t n = rp_pread_all(file->fd, out, size, offset);
    if (n < 0)
        return rp_fail(err, RP_IO, "cannot read '%s': %s", file->name, strerror(errno));
    return (size_t)n == size ? 0 : rp_fail(err, RP_IO, "'%s' became shorter while it was in use", file->name);
}

int rp_files_check_kind(struct rp_files *f, int i, struct rp_err *err)
{
    const struct rp_file *file = &f->file[i];
    char head[RP_FOREIGN_HEAD];
    const size_t n = file->size < sizeof head ? (size_t)file->size : sizeof head;
    if (rp_files_read(f, i, 0, head, n, err) < 0)
        return -1;
    const char *kind = rp_foreign_kind(head, n);
    return kind ? rp_fail(err, RP_MALFORMED, "'%s' %s", file->name, kind) : 0;
}

static int digest_file(struct rp_files *f, int i, char hex[65], struct rp_err *err)
{
    enum { chunk = 1 << 18 };
    RP_FREE char *bytes = rp_alloc(chunk);
    unsigned char digest[RP_SHA256_SIZE];
    struct rp_sha256 h;
    rp_sha256_init(&h);
    for (uint64_t at = 0, size = f->file[i].size; at < size;) {
        size_t n = size - at < chunk ? (size_t)(size - at) : chunk;
        if (rp_files_read(f, i, at, bytes, n, err) < 0)
            return -1;
        if (rp_interrupted())
            return rp_fail(err, RP_INTERRUPTED, "interrupted while reading '%s'", f->file[i].name);
        rp_sha256_update(&h, bytes, n);
        at += n;
    }
    rp_sha256_final(&h, digest);
    rp_hex(hex, digest, sizeof digest);
    return 0;
}

int rp_files_digest(struct rp_files *f, char hex[65], struct rp_err *err)
{
    unsigned char digest[RP_SHA256_SIZE];
    struct rp_sha256 h;
    rp_sha256_init(&h);
    for (int i = 0; i < f->n; i++) {
        if (digest_file(f, i, hex, err) < 0)
            return -1;
        rp_sha256_update(&h, hex, 64);
        rp_sha256_update(&h, "\n", 1);
    }
    rp_sha256_final(&h, digest);
    rp_hex(hex, digest, sizeof digest);
    return 0;
}

void rp_files_stamp(const struct rp_files *f, char hex[65])
{
    unsigned char digest[RP_SHA256_SIZE];
    struct rp_sha256 h;
    rp_sha256_init(&h);
    for (int i = 0; i < f->n; i++) {
        struct stat st = {0};
        const int there = !f->file[i].data && stat(f->file[i].name, &st) == 0;
        const uint64_t is[] = {(uint64_t)there, (uint64_t)st.st_dev, (uint64_t)st.st_ino, (uint64_t)st.st_size,
                               (uint64_t)st.st_mtim.tv_sec, (uint64_t)st.st_mtim.tv_nsec};
        rp_sha256_update(&h, is, sizeof is);
    }
    rp_sha256_final(&h, digest);
    rp_hex(hex, digest, sizeof digest);
}

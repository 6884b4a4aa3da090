#include "data/archive_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail_write(struct rp_err *err)
{
    int no = errno;
    return rp_fail(err, RP_IO, "cannot be written: %s%s", strerror(no),
                   no == ENOSPC || no == EDQUOT ? "; free some space or give another store with --store or $REPRO_STORE"
                                                : "");
}

int rp_archive_tree_init(struct rp_archive_tree *w, const char *dir, struct rp_err *err)
{
    *w = (struct rp_archive_tree){.dir = -1, .file = -1};
    w->root = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return w->root < 0 ? rp_fail(err, RP_IO, "cannot enter '%s': %s", dir, strerror(errno)) : 0;
}

void rp_archive_tree_fini(struct rp_archive_tree *w)
{
    rp_closep(&w->root);
    rp_closep(&w->dir);
    rp_closep(&w->file);
    rp_marker_list_fini(&w->list);
    free(w->at);
    w->at = NULL;
}

/* A directory in `in`, made if it does not exist, never through a link. */
static int enter_directory(int in, const char *name)
{
    int fd = openat(in, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 || errno != ENOENT || (mkdirat(in, name, 0755) < 0 && errno != EEXIST))
        return fd;
    return openat(in, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* The directory of that path as w->dir, component by component, unless it is open since the last call. */
static int go_to(struct rp_archive_tree *w, const char *path, size_t length, struct rp_err *err)
{
    if (w->dir >= 0 && strlen(w->at) == length && memcmp(w->at, path, length) == 0)
        return 0;
    RP_FREE char *names = rp_asprintf("%.*s", (int)length, path);
    rp_closep(&w->dir);
    int fd = fcntl(w->root, F_DUPFD_CLOEXEC, 0);
    for (char *p = names, *rest = NULL; fd >= 0 && (p = strtok_r(p, "/", &rest)); p = NULL) {
        int above = fd;
        fd = enter_directory(above, p);
        int no = errno;
        close(above);
        errno = no;
    }
    if (fd < 0)
        return fail_write(err);
    w->dir = fd;
    free(w->at);
    w->at = rp_asprintf("%.*s", (int)length, path);
    return 0;
}

/* The last component of a path, whose directory becomes w->dir; NULL on failure. */
static const char *enter_parent(struct rp_archive_tree *w, const char *path, struct rp_err *err)
{
    const char *slash = strrchr(path, '/');
    return go_to(w, path, slash ? (size_t)(slash - path) : 0, err) < 0 ? NULL : slash ? slash + 1 : path;
}

int rp_archive_tree_directory(struct rp_archive_tree *w, const char *path, struct rp_err *err)
{
    return go_to(w, path, strlen(path), err);
}

int rp_archive_tree_link(struct rp_archive_tree *w, const char *path, const char *target, struct rp_err *err)
{
    const char *name = enter_parent(w, path, err);
    if (!name)
        return -1;
    if (symlinkat(target, w->dir, name) < 0)
        return fail_write(err);
    rp_marker_list_add_link(&w->list, path, target);
    return 0;
}

int rp_archive_tree_begin(struct rp_archive_tree *w, const char *path, struct rp_err *err)
{
    const char *name = enter_parent(w, path, err);
    rp_closep(&w->file);
    w->file = name ? openat(w->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644) : -1;
    w->size = 0;
    rp_sha256_init(&w->hash);
    return w->file >= 0 ? 0 : name ? fail_write(err) : -1;
}

/* A hole up to `to`: it reads as zeros. */
static int skip_to(struct rp_archive_tree *w, int64_t to, struct rp_err *err)
{
    static const char zeros[65536];
    if (to > w->size && (ftruncate(w->file, to) < 0 || lseek(w->file, to, SEEK_SET) < 0))
        return fail_write(err);
    while (w->size < to) {
        size_t n = to - w->size < (int64_t)sizeof zeros ? (size_t)(to - w->size) : sizeof zeros;
        rp_sha256_update(&w->hash, zeros, n);
        w->size += (int64_t)n;
    }
    return 0;
}

int rp_archive_tree_add(struct rp_archive_tree *w, const void *data, size_t size, int64_t offset, struct rp_err *err)
{
    if (offset < w->size)
        return rp_fail(err, RP_MALFORMED, "its blocks overlap");
    if (skip_to(w, offset, err) < 0)
        return -1;
    if (rp_write_all(w->file, data, size) < 0)
        return fail_write(err);
    rp_sha256_update(&w->hash, data, size);
    w->size += (int64_t)size;
    return 0;
}

int rp_archive_tree_end(struct rp_archive_tree *w, const char *path, int64_t size, struct rp_err *err)
{
    char hex[RP_SHA256_HEX];
    if (skip_to(w, size, err) < 0)
        return -1;
    int failed = close(w->file) < 0;
    w->file = -1;
    if (failed)
        return fail_write(err);
    rp_sha256_final_hex(&w->hash, hex);
    rp_marker_list_add_file(&w->list, path, hex);
    return 0;
}

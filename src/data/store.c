/* The store on disk: unpacking into it and listing it. */
#include "data/store.h"

#include "base/buf.h"
#include "base/foreign.h"
#include "base/hash.h"
#include "base/text.h"
#include "data/archive.h"
#include "data/embedded_data.h"
#include "data/marker.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "sha256-"
#define TMP "tmp."
#define ANOTHER "give another directory with --store or $REPRO_STORE"

/* Anyone may have created our directory in /tmp. */
static int check_shared(const char *store, struct rp_err *err)
{
    struct stat st;
    if (strncmp(store, "/tmp/repro-", 11) != 0)
        return 0;
    if (lstat(store, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022))
        return rp_fail(err, RP_IO, "the store '%s' is not a directory that only you can write; " ANOTHER, store);
    return 0;
}

/* ---- one unpacking ---- */

struct store_work {
    char *dir, *data; /* STORE/tmp.<pid>.<n> and its data/ */
    int lock;
};

/* Locks a directory that was just made. Fails if clean_store() of another run got the lock first and removed it: then
 * try another name. */
static int lock_new(struct store_work *w)
{
    struct stat a, b;
    RP_FREE char *path = rp_asprintf("%s/lock", w->dir);
    w->lock = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (w->lock < 0 || (flock(w->lock, LOCK_EX) < 0 && errno != ENOLCK && errno != EOPNOTSUPP))
        return -1;
    if (fstat(w->lock, &a) < 0 || stat(path, &b) < 0 || a.st_ino != b.st_ino)
        return -1;
    return mkdir(w->data, 0755);
}

static void work_fini(struct store_work *w)
{
    if (w->dir)
        rp_tree_remove(w->dir);
    rp_closep(&w->lock);
    free(w->dir);
    free(w->data);
    *w = (struct store_work){.lock = -1};
}

static int work_init(struct store_work *w, const char *store, struct rp_err *err)
{
    *w = (struct store_work){.lock = -1};
    for (int i = 0; i < 100; i++) {
        w->dir = rp_asprintf("%s/" TMP "%ld.%d", store, (long)getpid(), i);
        w->data = rp_asprintf("%s/data", w->dir);
        int made = mkdir(w->dir, 0700) == 0, no = errno;
        if (made && lock_new(w) == 0)
            return 0;
        if (made) {
            no = errno;
            work_fini(w);
        }
        free(w->dir);
        free(w->data);
        *w = (struct store_work){.lock = -1};
        if (no != EEXIST && no != ENOENT)
            return rp_fail(err, RP_IO, "cannot write in the store '%s': %s; " ANOTHER, store, strerror(no));
    }
    return rp_fail(err, RP_IO, "cannot make a directory in the store '%s'; " ANOTHER, store);
}

/* Removes leftovers of killed runs: their locks are free. */
static void clean_store(const char *store)
{
    DIR *d = opendir(store);
    struct dirent *e;
    while (d && (e = readdir(d)) != NULL) {
        if (strncmp(e->d_name, TMP, strlen(TMP)) != 0)
            continue;
        RP_FREE char *dir = rp_asprintf("%s/%s", store, e->d_name), *path = rp_asprintf("%s/lock", dir);
        RP_FD lock = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0)
            rp_tree_remove(dir);
        else if (lock < 0 && errno == ENOENT)
            rmdir(dir); /* killed before it made the lock; fails if the directory is not empty */
    }
    if (d)
        closedir(d);
}

/* Renames into place, unless a concurrent run was faster: then *theirs is 1. */
static int publish_folder(const struct store_work *w, const char *store, const char *final, int *theirs,
                          struct rp_err *err)
{
    *theirs = rename(w->data, final) < 0;
    if (*theirs && errno != EEXIST && errno != ENOTEMPTY)
        return rp_fail(err, RP_IO, "cannot rename '%s' to '%s': %s", w->data, final, strerror(errno));
    RP_FD fd = open(store, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        fsync(fd);
    return 0;
}

static int unpack_new(const struct rp_archive_source *s, const char *store, const char *final, int *theirs,
                      struct rp_err *err)
{
    struct store_work w;
    if (work_init(&w, store, err) < 0)
        return -1;
    RP_BUF list = {0};
    int failed = rp_archive_unpack(s, w.data, NULL, &list, err) < 0 || rp_marker_write(w.data, &list, err) < 0 ||
                 publish_folder(&w, store, final, theirs, err) < 0;
    int no = failed ? err->sys : 0;
    work_fini(&w);
    if (failed && no == ENOSPC && !strstr(err->msg, "--store"))
        return rp_wrap(err, "the store '%s' is full; free some space or " ANOTHER, store);
    return failed ? -1 : 0;
}

int rp_store_find(const char *hex, const char *store, char **dir, struct rp_err *err)
{
    struct stat st;
    RP_FREE char *final = rp_asprintf("%s/" PREFIX "%s", store, hex);
    if (!rp_is_sha256(hex) || lstat(final, &st) < 0)
        return 0;
    if (check_shared(store, err) < 0 || rp_marker_check(final, err) < 0)
        return -1;
    *dir = rp_strdup(final);
    return 1;
}

int rp_store_add(const struct rp_archive_source *s, const char *hex, const char *store, char **dir, struct rp_err *err)
{
    struct stat st;
    RP_FREE char *final = rp_asprintf("%s/" PREFIX "%s", store, hex);
    int there = lstat(final, &st) == 0;
    if (there && check_shared(store, err) < 0)
        return -1;
    if (!there) {
        struct rp_err why;
        if (rp_mkdirs(store, 0700, &why) < 0)
            return rp_fail(err, RP_IO, "the store '%s' cannot be made: %s; " ANOTHER, store, why.msg);
        if (check_shared(store, err) < 0)
            return -1;
        clean_store(store);
        if (unpack_new(s, store, final, &there, err) < 0)
            return -1;
    }
    if (there && rp_marker_check(final, err) < 0) /* what was just unpacked here was just hashed */
        return -1;
    *dir = rp_strdup(final);
    return 0;
}

/* ---- archives as files ---- */

int rp_store_open_archive(const char *path, int *fd, struct rp_archive_source *s, char hex[65], struct rp_err *err)
{
    struct stat st;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*fd < 0 || fstat(*fd, &st) < 0)
        return rp_fail(err, RP_IO, "cannot open archive '%s': %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return rp_fail(err, RP_IO, "archive '%s' is not a regular file", path);
    *s = (struct rp_archive_source){.name = path, .fd = *fd, .size = (uint64_t)st.st_size};
    const char *kind = rp_foreign_kind_fd(*fd);
    if (kind)
        return rp_fail(err, RP_MALFORMED, "archive '%s' %s", path, kind);
    /* The same descriptor is hashed and unpacked, so that replacing the file in between has no effect. */
    return rp_sha256_fd(hex, *fd, path, NULL, err);
}

int rp_store_unpack(const char *archive, const char *sha256, const char *store, char **dir, char hex[65],
                    struct rp_err *err)
{
    struct rp_archive_source s;
    RP_FD fd = -1;
    if (access(archive, F_OK) < 0 && rp_embedded_archive(archive, &s) == 0)
        rp_sha256_hex(hex, s.data, s.size);
    else if (rp_store_open_archive(archive, &fd, &s, hex, err) < 0)
        return -1;
    if (sha256 && strcmp(sha256, hex) != 0)
        return rp_fail(err, RP_MISMATCH, "archive '%s' has SHA-256 %s, expected %s", archive, hex, sha256);
    RP_FREE char *where = rp_store_path(store, NULL);
    return rp_store_add(&s, hex, where, dir, err);
}

/* ---- listing ---- */

static void count_files(struct rp_store_entry *e)
{
    RP_BUF text = {0};
    struct rp_err ignored;
    struct stat st;
    RP_FREE char *path = rp_asprintf("%s/" RP_MARKER, e->dir);
    if (rp_read_file(&text, path, RP_MARKER_MAX, &ignored) < 0 || !text.data)
        return;
    for (char *p = text.data, *end; (end = strchr(p, '\n')) != NULL; p = end + 1) {
        *end = 0;
        if (*p == '#' || strlen(p) < 67)
            continue;
        RP_FREE char *file = rp_asprintf("%s/%s", e->dir, p + 66);
        e->files++;
        if (lstat(file, &st) == 0)
            e->bytes += (uint64_t)st.st_size;
    }
}

static int by_hex(const void *a, const void *b)
{
    return strcmp(((const struct rp_store_entry *)a)->sha256, ((const struct rp_store_entry *)b)->sha256);
}

int rp_store_list(const char *store, struct rp_store_entry **entry, int *n, struct rp_err *err)
{
    RP_FREE char *where = rp_store_path(store, NULL);
    struct dirent *e;
    *entry = NULL;
    *n = 0;
    DIR *d = opendir(where);
    if (!d && errno != ENOENT)
        return rp_fail(err, RP_IO, "cannot read the store '%s': %s", where, strerror(errno));
    while (d && (e = readdir(d)) != NULL) {
        const char *hex = e->d_name + strlen(PREFIX);
        if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) != 0 || !rp_is_sha256(hex))
            continue;
        *entry = rp_realloc(*entry, ((size_t)*n + 1) * sizeof **entry);
        struct rp_store_entry *new = &(*entry)[(*n)++];
        *new = (struct rp_store_entry){.dir = rp_asprintf("%s/%s", where, e->d_name)};
        memcpy(new->sha256, hex, 65);
        count_files(new);
    }
    if (d)
        closedir(d);
    if (*n)
        qsort(*entry, (size_t)*n, sizeof **entry, by_hex);
    return 0;
}

void rp_store_list_free(struct rp_store_entry *entry, int n)
{
    for (int i = 0; i < n; i++)
        free(entry[i].dir);
    free(entry);
}

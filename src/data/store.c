/* The content-addressed store of unpacked archives, and the data of a recipe. */
#include "data/store.h"

#include "base/buf.h"
#include "base/hash.h"
#include "data/archive.h"
#include "data/embedded.h"
#include "data/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIST ".repro-files"
#define LIST_MAX (64u << 20)

/* -- where it is -- */

static int ours_and_closed(const char *dir)
{
    struct stat st;
    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return 0;
    return lstat(dir, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 022) == 0;
}

char *rp_store_path(const char *store, int *named)
{
    const char *env = getenv("REPRO_STORE"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    *named = 1;
    if (store && *store)
        return rp_strdup(store);
    if (env && *env)
        return rp_strdup(env);
    *named = 0;
    if (cache && *cache == '/')
        return rp_asprintf("%s/repro", cache);
    if (home && *home == '/')
        return rp_asprintf("%s/.cache/repro", home);
    char *tmp = rp_asprintf("/tmp/repro-%ld", (long)geteuid());
    ours_and_closed(tmp);
    return tmp;
}

/* -- the list of digests in an entry -- */

struct tree {
    char *path; /* relative to the entry */
};
static __thread struct {
    struct tree *t;
    int n;
    size_t skip; /* length of the entry's path and the slash */
} found;

static int note_file(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)at;
    if ((type != FTW_F && type != FTW_SL) || strcmp(path + found.skip, LIST) == 0)
        return 0;
    found.t = rp_realloc(found.t, (size_t)(found.n + 1) * sizeof *found.t);
    found.t[found.n++].path = rp_strdup(path + found.skip);
    return 0;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct tree *)a)->path, ((const struct tree *)b)->path);
}

/* "sha256sum" lines of every file below dir, sorted; links are followed only to files inside, which they were checked to be. */
static int digest_tree(struct rp_buf *out, const char *dir, struct rp_err *err)
{
    found.t = NULL;
    found.n = 0;
    found.skip = strlen(dir) + 1;
    int failed = 0;
    if (nftw(dir, note_file, 16, FTW_PHYS) != 0)
        failed = rp_fail(err, RP_IO, "cannot read the folder '%s': %s", dir, strerror(errno)) < 0;
    qsort(found.t, (size_t)found.n, sizeof *found.t, by_path);
    for (int i = 0; i < found.n; i++) {
        char hex[RP_SHA256_HEX];
        RP_FREE char *path = rp_asprintf("%s/%s", dir, found.t[i].path);
        struct stat st;
        if (!failed && stat(path, &st) == 0 && S_ISREG(st.st_mode)) {
            failed = rp_sha256_file(hex, path, NULL, err) < 0;
            if (!failed)
                rp_buf_printf(out, "%s  %s\n", hex, found.t[i].path);
        }
        free(found.t[i].path);
    }
    free(found.t);
    found.t = NULL;
    return failed ? -1 : 0;
}

int rp_store_check(const char *dir, struct rp_err *err)
{
    RP_BUF want = {0}, have = {0};
    RP_FREE char *list = rp_asprintf("%s/" LIST, dir);
    if (rp_read_file(&want, list, LIST_MAX, err) < 0)
        return rp_wrap(err, "the store's entry '%s' is not whole; remove it and run again", dir);
    if (digest_tree(&have, dir, err) < 0)
        return -1;
    if (want.size == have.size && (want.size == 0 || memcmp(want.data, have.data, want.size) == 0))
        return 0;
    size_t line = 0;
    for (size_t i = 0; i < want.size && i < have.size && want.data[i] == have.data[i]; i++)
        if (want.data[i] == '\n')
            line = i + 1;
    const char *rest = line + 66 < want.size ? want.data + line + 66 : "a file that was added";
    return rp_fail(err, RP_MISMATCH, "the store's entry '%s' was changed, first at '%.*s'; remove the folder and run again", dir,
                   (int)strcspn(rest, "\n"), rest);
}

/* -- leftovers and removal -- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)at;
    return type == FTW_DP ? rmdir(path) : unlink(path);
}

static void remove_tree(const char *dir)
{
    nftw(dir, remove_one, 16, FTW_PHYS | FTW_DEPTH);
}

/* A tmp.* whose lock nobody holds belongs to a run that died. */
static void remove_leftovers(const char *store)
{
    DIR *d = opendir(store);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (strncmp(e->d_name, "tmp.", 4) != 0)
            continue;
        RP_FREE char *dir = rp_asprintf("%s/%s", store, e->d_name), *lock = rp_asprintf("%s/lock", dir);
        RP_FD fd = open(lock, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (fd >= 0 ? flock(fd, LOCK_EX | LOCK_NB) == 0 : errno == ENOENT && rmdir(dir) == 0)
            remove_tree(dir);
    }
    if (d)
        closedir(d);
}

/* -- unpacking into the store -- */

/* STORE/tmp.<pid>.<n> with its lock held through *fd. */
static char *make_temp(const char *store, int *fd, struct rp_err *err)
{
    for (int i = 0; i < 1000; i++) {
        char *dir = rp_asprintf("%s/tmp.%ld.%d", store, (long)getpid(), i);
        RP_FREE char *lock = rp_asprintf("%s/lock", dir), *data = rp_asprintf("%s/data", dir);
        if (mkdir(dir, 0700) == 0) {
            *fd = open(lock, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
            if (*fd >= 0 && flock(*fd, LOCK_EX | LOCK_NB) == 0 && mkdir(data, 0755) == 0)
                return dir;
            rp_closep(fd);
        }
        int e = errno;
        free(dir);
        if (e != EEXIST)
            return rp_fail_null(err, RP_IO, "the store '%s' cannot be written: %s; name another place with --store or $REPRO_STORE",
                                store, strerror(e));
    }
    return rp_fail_null(err, RP_IO, "the store '%s' is full of temporary folders; remove its tmp.*", store);
}

static int sync_path(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)at;
    if (type != FTW_F && type != FTW_D && type != FTW_DP)
        return 0;
    RP_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    return fd >= 0 && fsync(fd) < 0 && errno != EINVAL ? -1 : 0;
}

static int unpack_to(const struct rp_archive_source *s, const char *data, struct rp_err *err)
{
    struct rp_archive_limits limits = RP_ARCHIVE_LIMITS;
    struct rp_archive_stats stats;
    RP_BUF list = {0};
    RP_FREE char *path = rp_asprintf("%s/" LIST, data);
    if (rp_archive_unpack(s, data, &limits, &stats, err) < 0 || digest_tree(&list, data, err) < 0 ||
        rp_write_file(path, list.data ? list.data : "", list.size, 0644, err) < 0)
        return -1;
    if (nftw(data, sync_path, 16, FTW_PHYS | FTW_DEPTH) != 0)
        return rp_fail(err, RP_IO, "cannot flush '%s' to disk: %s", data, strerror(errno));
    return 0;
}

/* STORE/sha256-<hex>, there already and whole, or made now. */
static int store_entry(const struct rp_archive_source *s, const char *hex, const char *store, char **dir, struct rp_err *err)
{
    struct stat st;
    char *final = rp_asprintf("%s/sha256-%s", store, hex);
    int failed = 0, fd = -1;
    if (lstat(final, &st) < 0) {
        failed = rp_mkdirs(store, 0700, err) < 0;
        if (failed)
            rp_wrap(err, "the store (another place: --store or $REPRO_STORE)");
        if (!failed)
            remove_leftovers(store);
        RP_FREE char *temp = failed ? NULL : make_temp(store, &fd, err);
        failed = !temp;
        if (temp) {
            RP_FREE char *data = rp_asprintf("%s/data", temp);
            failed = unpack_to(s, data, err) < 0;
            if (!failed && rename(data, final) < 0 && errno != EEXIST && errno != ENOTEMPTY)
                failed = rp_fail(err, RP_IO, "cannot rename '%s' to '%s': %s", data, final, strerror(errno)) < 0;
            remove_tree(temp);
        }
        rp_closep(&fd);
    }
    failed = failed || rp_store_check(final, err) < 0;
    if (failed)
        free(final);
    else
        *dir = final;
    return failed ? -1 : 0;
}

static int digest_fd(int fd, const char *name, char hex[65], uint64_t *size, struct rp_err *err)
{
    enum { chunk = 1 << 18 };
    RP_FREE char *bytes = rp_alloc(chunk);
    unsigned char digest[RP_SHA256_SIZE];
    struct rp_sha256 h;
    ssize_t n;
    rp_sha256_init(&h);
    *size = 0;
    while ((n = read(fd, bytes, chunk)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return rp_fail(err, RP_IO, "cannot read '%s': %s", name, strerror(errno));
        rp_sha256_update(&h, bytes, (size_t)n);
        *size += (uint64_t)n;
    }
    rp_sha256_final(&h, digest);
    rp_hex(hex, digest, sizeof digest);
    return 0;
}

static int check_digest(const char *name, const char *have, const char *want, struct rp_err *err)
{
    if (!want || strcmp(have, want) == 0)
        return 0;
    return rp_fail(err, RP_MISMATCH, "archive '%s' has SHA-256 %s, expected %s; it is another file, it was not unpacked", name, have,
                   want);
}

int rp_store_unpack(const char *archive, const char *sha256, const char *store, char **dir, char hex[65], struct rp_err *err)
{
    int named;
    struct stat st;
    struct rp_archive_source s = {.name = archive};
    RP_FD fd = open(archive, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0)
        return rp_fail(err, RP_IO, "cannot open archive '%s': %s", archive, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return rp_fail(err, RP_IO, "archive '%s' is not a regular file", archive);
    s.fd = fd;
    if (digest_fd(fd, archive, hex, &s.size, err) < 0 || check_digest(archive, hex, sha256, err) < 0)
        return -1;
    RP_FREE char *where = rp_store_path(store, &named);
    return store_entry(&s, hex, where, dir, err);
}

/* -- the data of a recipe -- */

void rp_data_set_fini(struct rp_data_set *s)
{
    free(s->path);
    free(s->archive);
    free(s->sha256);
    free(s->digest);
    *s = (struct rp_data_set){0};
}

static int digest_files(struct rp_data_set *out, struct rp_err *err)
{
    struct rp_files f;
    char hex[65];
    if (rp_files_open(&f, out->path, err) < 0)
        return -1;
    int failed = rp_files_digest(&f, hex, err) < 0;
    rp_files_close(&f);
    if (!failed)
        out->digest = rp_strdup(hex);
    return failed ? -1 : 0;
}

/* The archive beside the recipe; a recipe that is embedded, or has none beside it, uses the one in the program. */
static char *beside_recipe(const struct rp_recipe *r)
{
    const char *slash = r->source_name ? strrchr(r->source_name, '/') : NULL;
    if (r->data_archive[0] == '/')
        return rp_strdup(r->data_archive);
    if (slash && strncmp(r->source_name, "embedded:", 9) != 0)
        return rp_asprintf("%.*s/%s", (int)(slash - r->source_name), r->source_name, r->data_archive);
    return rp_strdup(r->data_archive);
}

static int from_embedded(const struct rp_recipe *r, const char *store, struct rp_data_set *out, struct rp_err *err)
{
    int named;
    char hex[65];
    struct rp_archive_source s;
    const char *base = strrchr(r->data_archive, '/');
    base = base ? base + 1 : r->data_archive;
    if (rp_embedded_archive(base, &s) < 0)
        return rp_fail(err, RP_IO, "archive '%s' is neither beside the recipe nor in this program; see `repro data list`",
                       r->data_archive);
    rp_sha256_hex(hex, s.data, (size_t)s.size);
    if (check_digest(base, hex, r->data_sha256, err) < 0)
        return -1;
    RP_FREE char *where = rp_store_path(store, &named);
    if (store_entry(&s, hex, where, &out->path, err) == 0)
        return 0;
    if (named || err->code != RP_IO)
        return -1;
    out->path = rp_asprintf(RP_FILES_EMBEDDED "%s", base); /* no place to write: read it from memory */
    return 0;
}

int rp_data_prepare(const struct rp_recipe *r, const char *store, struct rp_data_set *out, struct rp_err *err)
{
    char hex[65];
    int failed;
    *out = (struct rp_data_set){0};
    if (r->data_path && *r->data_path) {
        out->path = rp_strdup(r->data_path);
        failed = digest_files(out, err) < 0;
    } else if (!r->data_archive || !*r->data_archive) {
        failed = rp_fail(err, RP_USAGE, "the recipe names no data: set data.archive and data.sha256, or data.path") < 0;
    } else {
        RP_FREE char *path = beside_recipe(r);
        const char *base = strrchr(r->data_archive, '/');
        failed = access(path, F_OK) == 0 ? rp_store_unpack(path, r->data_sha256, store, &out->path, hex, err) < 0
                                         : from_embedded(r, store, out, err) < 0;
        out->pinned = !failed;
        out->archive = rp_strdup(base ? base + 1 : r->data_archive);
        out->sha256 = rp_strdup(r->data_sha256);
        failed = failed || digest_files(out, err) < 0;
    }
    if (failed)
        rp_data_set_fini(out);
    return failed ? -1 : 0;
}

/* -- listing -- */

static void add_entry(struct rp_store_entry **entry, int *n, const char *store, const char *name)
{
    RP_BUF list = {0};
    struct rp_err ignored;
    struct stat st;
    *entry = rp_realloc(*entry, (size_t)(*n + 1) * sizeof **entry);
    struct rp_store_entry *e = &(*entry)[(*n)++];
    *e = (struct rp_store_entry){.dir = rp_asprintf("%s/%s", store, name)};
    snprintf(e->sha256, sizeof e->sha256, "%s", name + 7);
    RP_FREE char *path = rp_asprintf("%s/" LIST, e->dir);
    if (rp_read_file(&list, path, LIST_MAX, &ignored) < 0)
        return;
    for (char *line = list.data, *end; line && *line && (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        RP_FREE char *file = rp_asprintf("%s/%s", e->dir, strlen(line) > 66 ? line + 66 : "");
        e->files++;
        e->bytes += stat(file, &st) == 0 ? (uint64_t)st.st_size : 0;
    }
}

static int by_sha256(const void *a, const void *b)
{
    return strcmp(((const struct rp_store_entry *)a)->sha256, ((const struct rp_store_entry *)b)->sha256);
}

int rp_store_list(const char *store, struct rp_store_entry **entry, int *n, struct rp_err *err)
{
    int named;
    RP_FREE char *where = rp_store_path(store, &named);
    *entry = NULL;
    *n = 0;
    DIR *d = opendir(where);
    if (!d && errno != ENOENT)
        return rp_fail(err, RP_IO, "cannot read the store '%s': %s", where, strerror(errno));
    for (struct dirent *e; d && (e = readdir(d));)
        if (strncmp(e->d_name, "sha256-", 7) == 0 && strlen(e->d_name) == 7 + 64)
            add_entry(entry, n, where, e->d_name);
    if (d)
        closedir(d);
    qsort(*entry, (size_t)*n, sizeof **entry, by_sha256);
    return 0;
}

void rp_store_list_free(struct rp_store_entry *entry, int n)
{
    for (int i = 0; i < n; i++)
        free(entry[i].dir);
    free(entry);
}

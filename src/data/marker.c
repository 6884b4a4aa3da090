#include "data/marker.h"

#include "base/hash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH 600 /* deeper than any path an archive may have */
#define HEAD "# files of this directory, as sha256sum -c reads them\n"
/* files that are flushed one by one, which takes milliseconds each; more of them with their file system, at once */
#define FEW 64

static void add_line(struct rp_marker_list *l, char *line)
{
    if ((l->n & (l->n - 1)) == 0)
        l->line = rp_realloc(l->line, (l->n ? 2 * l->n : 1) * sizeof *l->line);
    l->line[l->n++] = line;
}

void rp_marker_list_add_file(struct rp_marker_list *l, const char *path, const char *sha256)
{
    add_line(l, rp_asprintf("%s\n%s  %s\n", path, sha256, path));
}

void rp_marker_list_add_link(struct rp_marker_list *l, const char *path, const char *target)
{
    add_line(l, rp_asprintf("%s\n# link %s -> %s\n", path, path, target));
}

static int by_path(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void rp_marker_list_text(struct rp_buf *out, struct rp_marker_list *l)
{
    if (l->n)
        qsort(l->line, l->n, sizeof *l->line, by_path);
    rp_buf_puts(out, HEAD);
    for (size_t i = 0; i < l->n; i++)
        rp_buf_puts(out, strchr(l->line[i], '\n') + 1);
}

void rp_marker_list_fini(struct rp_marker_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->line[i]);
    free(l->line);
    *l = (struct rp_marker_list){0};
}

/* ---- what exists ---- */

static int list_path(struct rp_marker_list *l, const char *path, const char *shown, const struct stat *st,
                     struct rp_err *err)
{
    char hex[RP_SHA256_HEX], target[1100];
    if (S_ISLNK(st->st_mode)) {
        ssize_t n = readlink(path, target, sizeof target - 1);
        if (n < 0)
            return rp_fail(err, RP_IO, "cannot read link '%s': %s", path, strerror(errno));
        target[n] = 0;
        rp_marker_list_add_link(l, shown, target);
        return 0;
    }
    if (!S_ISREG(st->st_mode)) {
        add_line(l, rp_asprintf("%s\n# other %s\n", shown, shown));
        return 0;
    }
    if (rp_sha256_file(hex, path, NULL, err) < 0)
        return -1;
    rp_marker_list_add_file(l, shown, hex);
    return 0;
}

static int list_directory(struct rp_marker_list *l, const char *dir, const char *prefix, int depth, struct rp_err *err)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    struct stat st;
    int failed = 0;
    if (!d || depth > DEPTH) {
        if (d)
            closedir(d);
        return rp_fail(err, RP_IO, "cannot read directory '%s': %s", dir, d ? "too deep" : strerror(errno));
    }
    while (!failed && (errno = 0, (e = readdir(d)) != NULL)) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            (depth == 0 && strcmp(e->d_name, RP_MARKER) == 0))
            continue;
        RP_FREE char *path = rp_asprintf("%s/%s", dir, e->d_name), *shown = rp_asprintf("%s%s", prefix, e->d_name);
        RP_FREE char *below = rp_asprintf("%s/", shown);
        if (lstat(path, &st) < 0)
            failed = rp_fail(err, RP_IO, "cannot read '%s': %s", path, strerror(errno));
        else
            failed = S_ISDIR(st.st_mode) ? list_directory(l, path, below, depth + 1, err)
                                         : list_path(l, path, shown, &st, err);
    }
    if (!failed && errno)
        failed = rp_fail(err, RP_IO, "cannot read directory '%s': %s", dir, strerror(errno));
    closedir(d);
    return failed;
}

/* ---- flushing ---- */

static int sync_path(const char *path, const struct stat *st, int type, struct FTW *f)
{
    (void)st, (void)f;
    if (type == FTW_SL)
        return 0;
    RP_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 || (fsync(fd) < 0 && errno != EINVAL && errno != ENOTSUP) ? -1 : 0;
}

static int sync_tree(const char *dir, const struct rp_buf *list, struct rp_err *err)
{
    size_t lines = 0;
    for (size_t i = 0; i < list->size; i++)
        lines += list->data[i] == '\n';
    RP_FD fd = lines <= FEW ? -1 : open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (lines <= FEW ? nftw(dir, sync_path, 16, FTW_PHYS | FTW_DEPTH) != 0 : fd < 0 || syncfs(fd) < 0)
        return rp_fail(err, RP_IO, "cannot flush '%s' to the disk: %s", dir, strerror(errno));
    return 0;
}

int rp_marker_write(const char *dir, const struct rp_buf *list, struct rp_err *err)
{
    RP_FREE char *path = rp_asprintf("%s/" RP_MARKER, dir);
    return sync_tree(dir, list, err) < 0 ? -1 : rp_write_file(path, list->data, list->size, 0644, err);
}

/* ---- comparing ---- */

/* The path of the line at p, "" at the end. */
static void line_path(const char *p, char *out, size_t size)
{
    size_t n = strcspn(p, "\n"), skip = strncmp(p, "# ", 2) == 0 ? 0 : 66;
    skip = skip > n ? n : skip;
    n = n - skip < size - 1 ? n - skip : size - 1;
    memcpy(out, p + skip, n);
    out[n] = 0;
}

/* Both lists are sorted by path, so the first line that differs names the file. */
static int explain_difference(const char *dir, const char *have, const char *want, struct rp_err *err)
{
    char a[200], b[200];
    size_t i = 0;
    while (have[i] && have[i] == want[i])
        i++;
    while (i && have[i - 1] != '\n')
        i--;
    line_path(have + i, a, sizeof a);
    line_path(want + i, b, sizeof b);
    const char *what = strcmp(a, b) == 0                 ? "was modified"
                       : !*b || (*a && strcmp(a, b) < 0) ? "was added"
                                                         : "is missing";
    return rp_fail(err, RP_MISMATCH,
                   "'%s' in '%s' %s after it was unpacked; remove that directory (rm -r) and it will be unpacked again",
                   strcmp(what, "is missing") == 0 ? b : a, dir, what);
}

int rp_marker_check(const char *dir, struct rp_err *err)
{
    RP_BUF have = {0}, want = {0};
    RP_FREE char *path = rp_asprintf("%s/" RP_MARKER, dir);
    struct stat st;
    if (lstat(path, &st) < 0 || !S_ISREG(st.st_mode))
        return rp_fail(err, RP_MISMATCH,
                       "'%s' has no list of its files (" RP_MARKER
                       "); remove that directory (rm -r) and it will be unpacked again",
                       dir);
    struct rp_marker_list l = {0};
    int failed = rp_read_file(&want, path, RP_MARKER_MAX, err) < 0 || list_directory(&l, dir, "", 0, err) < 0;
    if (!failed)
        rp_marker_list_text(&have, &l);
    rp_marker_list_fini(&l);
    if (failed)
        return -1;
    if (!rp_buf_is(&want, have.data, have.size))
        return explain_difference(dir, have.data, rp_buf_text(&want), err);
    return 0;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *f)
{
    (void)st, (void)type, (void)f;
    remove(path);
    return 0;
}

void rp_tree_remove(const char *dir)
{
    nftw(dir, remove_entry, 16, FTW_PHYS | FTW_DEPTH);
}

/* Opening a bundle: a file, standard input, or an unpacked directory. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create */
#endif
#include "bundle/source.h"

#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE (1 << 16)
#define FOLDERS 4 /* of members: steps/, env/ and the like lie in the first */

static int open_memory(struct rp_err *err)
{
    const int fd = memfd_create("bundle", MFD_CLOEXEC);
    return fd >= 0 ? fd : rp_fail(err, RP_UNAVAILABLE, "no memory for a bundle: %s", strerror(errno));
}

static int copy_input(int to, struct rp_err *err)
{
    RP_FREE char *piece = rp_alloc(PIECE);
    size_t total = 0;
    for (;;) {
        const ssize_t n = RP_RETRY(read(STDIN_FILENO, piece, PIECE));
        if (n < 0)
            return rp_fail(err, RP_IO, "cannot read standard input: %s", strerror(errno));
        if (n == 0)
            return 0;
        total += (size_t)n;
        if (total > RP_BUNDLE_TOTAL_MAX)
            return rp_fail(err, RP_MALFORMED, "standard input has more than %lu bytes, more than any bundle",
                           RP_BUNDLE_TOTAL_MAX);
        if (rp_write_all(to, piece, (size_t)n) < 0)
            return rp_fail(err, RP_UNAVAILABLE, "no memory for standard input: %s", strerror(errno));
    }
}

struct unpacked {
    struct rp_bundle bundle;
    size_t total;
};

static int add_file(struct unpacked *u, const char *path, const char *name, struct rp_err *err)
{
    RP_BUF bytes = {0};
    if (rp_read_file(&bytes, path, RP_BUNDLE_MEMBER_MAX + 1, err) < 0)
        return -1;
    u->total += bytes.size;
    if (u->total > RP_BUNDLE_TOTAL_MAX)
        return rp_fail(err, RP_MALFORMED, "its files have more than %lu bytes, more than any bundle",
                       RP_BUNDLE_TOTAL_MAX);
    return rp_bundle_add(&u->bundle, name, bytes.data, bytes.size, err);
}

/* name: of the folder among the members, with a slash at its end; "" at first. */
static int add_folder(struct unpacked *u, const char *path, const char *name, int depth, struct rp_err *err)
{
    DIR *d = opendir(path);
    int failed = d ? 0 : rp_fail(err, RP_IO, "cannot open '%s': %s", path, strerror(errno));
    for (struct dirent *e; !failed && (e = readdir(d));) {
        struct stat st;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        RP_FREE char *at = rp_asprintf("%s/%s", path, e->d_name), *member = rp_asprintf("%s%s", name, e->d_name);
        if (lstat(at, &st) < 0)
            failed = rp_fail(err, RP_IO, "cannot read '%s': %s", at, strerror(errno));
        else if (S_ISREG(st.st_mode))
            failed = add_file(u, at, member, err);
        else if (S_ISDIR(st.st_mode) && depth < FOLDERS) {
            RP_FREE char *folder = rp_asprintf("%s/", member);
            failed = add_folder(u, at, folder, depth + 1, err);
        } else
            failed = rp_fail(err, RP_MALFORMED, "'%s' is neither a regular file nor a folder of members", at);
    }
    if (d)
        closedir(d);
    return failed;
}

static int pack_folder(int to, const char *path, struct rp_err *err)
{
    struct unpacked u = {0};
    RP_BUF file = {0};
    RP_FREE char *statement = rp_asprintf("%s/statement.dsse.json", path);
    if (access(statement, F_OK) < 0)
        return rp_fail(
            err, RP_IO,
            "'%s' is a directory without an unpacked bundle: it has no statement.dsse.json; for the bundles in "
            "it, give DIR/*.repro.tar.zst",
            path);
    int failed = add_folder(&u, path, "", 0, err) < 0 || rp_bundle_pack(&u.bundle, &file, err) < 0;
    if (!failed && rp_write_all(to, rp_buf_text(&file), file.size) < 0)
        failed = rp_fail(err, RP_UNAVAILABLE, "no memory for the bundle: %s", strerror(errno));
    rp_bundle_fini(&u.bundle);
    return failed ? rp_wrap(err, "directory '%s'", path) : 0;
}

int rp_bundle_source_open(struct rp_bundle_source *out, const char *path, struct rp_err *err)
{
    struct stat st;
    *out = (struct rp_bundle_source){.fd = -1};
    const int input = strcmp(path, "-") == 0;
    out->unpacked = !input && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    out->fd = input || out->unpacked ? open_memory(err) : rp_open_regular(path, err);
    if (out->fd < 0)
        return -1;
    if (input ? copy_input(out->fd, err) < 0 : out->unpacked && pack_folder(out->fd, path, err) < 0)
        return -1;
    return 0;
}

void rp_bundle_source_close(struct rp_bundle_source *s)
{
    rp_closep(&s->fd);
}

static int open_path(struct rp_bundle *b, const char *path,
                     int (*read_from)(struct rp_bundle *b, int fd, struct rp_err *err), struct rp_err *err)
{
    *b = (struct rp_bundle){0};
    RP_BUNDLE_SOURCE from = {.fd = -1};
    if (rp_bundle_source_open(&from, path, err) < 0)
        return -1;
    return read_from(b, from.fd, err) < 0 ? rp_wrap(err, "bundle '%s'", path) : 0;
}

int rp_bundle_open(struct rp_bundle *b, const char *path, struct rp_err *err)
{
    return open_path(b, path, rp_bundle_read, err);
}

int rp_bundle_skim(struct rp_bundle *b, const char *path, struct rp_err *err)
{
    return open_path(b, path, rp_bundle_scan, err);
}

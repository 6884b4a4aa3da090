#include "cli/amend.h"

#include "base/hash.h"
#include "bundle/source.h"
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static int lock_file(const char *path, struct stat *st, struct rp_err *err)
{
    for (;;) {
        struct stat now;
        RP_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd < 0 || fstat(fd, st) < 0)
            return rp_fail(err, RP_IO, "cannot open '%s': %s", path, strerror(errno));
        if (S_ISDIR(st->st_mode))
            return rp_fail(err, RP_USAGE,
                           "'%s' is a directory, and something is added to a bundle only as a file: give the "
                           ".repro.tar.zst that was unpacked into it",
                           path);
        if (!S_ISREG(st->st_mode))
            return rp_fail(err, RP_MALFORMED, "'%s' is not a regular file", path);
        while (flock(fd, LOCK_EX) < 0 && errno == EINTR) { /* some file systems have no locks */
        }
        if (stat(path, &now) == 0 && now.st_dev == st->st_dev && now.st_ino == st->st_ino)
            return rp_fd_take(&fd);
    }
}

int rp_amend_open(char **path, struct stat *st, const char *name, const char *output, int force, struct rp_err *err)
{
    *path = realpath(name, NULL);
    if (!*path)
        return rp_fail(err, RP_IO, "cannot open '%s': %s", name, strerror(errno));
    return output && rp_cli_check_bundle_output(output, "--output", force, err) < 0 ? -1 : lock_file(*path, st, err);
}

int rp_amend_read(struct rp_bundle *whole, const char *path, const struct rp_bundle *verified, struct rp_err *err)
{
    char is[RP_SHA256_HEX], was[RP_SHA256_HEX];
    if (rp_bundle_open(whole, path, err) < 0)
        return -1;
    int same = whole->n == verified->n;
    for (int i = 0; same && i < whole->n; i++) {
        rp_member_sha256(is, &whole->member[i]);
        rp_member_sha256(was, &verified->member[i]);
        same = strcmp(whole->member[i].name, verified->member[i].name) == 0 && strcmp(is, was) == 0;
    }
    return same ? 0 : rp_fail(err, RP_MISMATCH, "'%s' changed during verification; nothing was added", path);
}

int rp_amend_write(const struct rp_bundle *b, const char *path, int fresh, mode_t mode, struct rp_err *err)
{
    RP_BUF file = {0};
    if (rp_bundle_pack(b, &file, err) < 0)
        return -1;
    return (fresh ? rp_write_new_file : rp_write_file)(path, file.data, file.size, mode, err);
}

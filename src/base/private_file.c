#include "base/private_file.h"

#include "base/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#define OTHERS_WRITE (S_IWGRP | S_IWOTH)

int rp_private_open(const char *path, const char *what, struct rp_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
    if (fd >= 0)
        return fd;
    if (errno == ELOOP)
        return rp_fail(err, RP_USAGE, "%s '%s' is a symbolic link: give the file that it leads to (readlink -f)", what,
                       path);
    return rp_fail(err, RP_IO, "cannot open %s '%s': %s", what, path, strerror(errno));
}

static int is_trusted(uid_t owner)
{
    return owner == 0 || owner == geteuid() || geteuid() == 0;
}

int rp_private_check(const struct stat *st, const char *path, const char *what, struct rp_err *err)
{
    struct stat in;
    RP_FREE char *dir = rp_folder_of(path);
    if (stat(dir, &in) < 0)
        return rp_fail(err, RP_IO, "cannot look at the directory '%s': %s", dir, strerror(errno));
    if (!is_trusted(st->st_uid))
        return rp_fail(err, RP_USAGE, "%s belongs to user %lu, who could change it: run chown %lu '%s'", what,
                       (unsigned long)st->st_uid, (unsigned long)geteuid(), path);
    if (st->st_mode & OTHERS_WRITE)
        return rp_fail(err, RP_USAGE, "%s can be changed by others (mode %04o): run chmod go-w '%s'", what,
                       (unsigned)(st->st_mode & 07777), path);
    if (!is_trusted(in.st_uid))
        return rp_fail(err, RP_USAGE,
                       "the directory of %s belongs to user %lu, who could replace it: run chown %lu '%s', or move it",
                       what, (unsigned long)in.st_uid, (unsigned long)geteuid(), dir);
    if ((in.st_mode & OTHERS_WRITE) && !(in.st_mode & S_ISVTX))
        return rp_fail(err, RP_USAGE,
                       "others can replace %s (mode %04o of its directory): run chmod go-w '%s', or move it", what,
                       (unsigned)(in.st_mode & 07777), dir);
    return 0;
}

int rp_private_in_memory(int fd, const struct stat *st)
{
    enum { TMPFS = 0x01021994, RAMFS = 0x858458f6 };
    struct statfs s;
    return st->st_uid == 0 && fstatfs(fd, &s) == 0 &&
           ((unsigned long)s.f_type == TMPFS || (unsigned long)s.f_type == RAMFS);
}

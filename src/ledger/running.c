/* Runs in progress: a lock on one byte each, in a file of their own, which ends with the process however that ends. */
#ifndef _GNU_SOURCE
/* F_OFD_SETLK: of the open file, so that closing another descriptor of the file does not give it up */
#define _GNU_SOURCE
#endif
#include "ledger/inner.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

int rp_ledger_running_open(const char *path)
{
    struct stat st;
    RP_FREE char *file = rp_asprintf("%s" RP_LEDGER_RUNNING, path);
    RP_FD fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW, 0600);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid())
        return -1;
    return rp_fd_take(&fd);
}

static struct flock byte_at(int64_t position)
{
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)position, .l_len = 1};
}

int rp_ledger_running_mark(int fd, int64_t position)
{
    struct flock byte = byte_at(position);
    return fcntl(fd, F_OFD_SETLK, &byte) < 0 ? -1 : 0;
}

int rp_ledger_running_is(int fd, int64_t position)
{
    struct flock byte = byte_at(position);
    return fcntl(fd, F_OFD_GETLK, &byte) < 0 ? -1 : byte.l_type != F_UNLCK;
}

/* Both sides of a changed file, without filters and without following links. libgit2's own comparison of contents would
 * ask the repository's configuration for diff drivers. */
#include "base/clock.h"
#include "base/hash.h"
#include "base/text.h"
#include "capture/git/git.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_TEXT = 1 << 20 /* bytes of a file that is read as a whole */ };

int rp_git_read_old(struct rp_buf *bytes, git_repository *repo, const git_diff_file *f)
{
    git_odb *odb = NULL;
    git_blob *blob = NULL;
    git_object_t type;
    size_t size;
    if (git_repository_odb(&odb, repo) < 0 || git_odb_read_header(&size, &type, odb, &f->id) < 0 ||
        type != GIT_OBJECT_BLOB)
        return -1;
    if (size > MAX_TEXT)
        return 0;
    if (git_blob_lookup(&blob, repo, &f->id) < 0)
        return -1;
    rp_buf_add(bytes, git_blob_rawcontent(blob), (size_t)git_blob_rawsize(blob));
    git_blob_free(blob);
    return 0;
}

/* The directory that holds path, and the last part of it in *name; -1 with errno. */
static int open_parent(git_repository *repo, const char *path, const char **name)
{
    RP_FD dir = open(git_repository_workdir(repo), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (const char *slash; dir >= 0 && (slash = strchr(path, '/')); path = slash + 1) {
        RP_FREE char *part = rp_asprintf("%.*s", (int)(slash - path), path);
        if (!*part || strcmp(part, "..") == 0 || strcmp(part, ".") == 0) {
            errno = EINVAL;
            return -1;
        }
        int next = openat(dir, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        rp_closep(&dir);
        dir = next;
    }
    *name = path;
    return rp_fd_take(&dir);
}

int rp_git_read_new(struct rp_git_file *file, git_repository *repo, const char *path, uint64_t deadline)
{
    static char block[65536];
    struct rp_sha256 hash;
    struct stat st;
    const char *name;
    *file = (struct rp_git_file){0};
    RP_FD dir = open_parent(repo, path, &name);
    ssize_t n = dir < 0 ? -1 : readlinkat(dir, name, block, sizeof block);
    if (n >= 0) {
        rp_buf_add(&file->bytes, block, (size_t)n);
        rp_sha256_hex(file->sha256, block, (size_t)n);
        return 0;
    }
    RP_FD fd = dir < 0 ? -1 : openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return -1;
    rp_sha256_init(&hash);
    while ((n = read(fd, block, sizeof block)) > 0) {
        rp_sha256_update(&hash, block, (size_t)n);
        if (st.st_size <= MAX_TEXT && file->bytes.size <= MAX_TEXT)
            rp_buf_add(&file->bytes, block, (size_t)n);
        if (rp_now_ns() > deadline)
            return -1;
    }
    if (n == 0)
        rp_sha256_final_hex(&hash, file->sha256);
    return n < 0 ? -1 : 0;
}

/* Both sides of a changed file, without filters and without following links, and the text of their difference. libgit2's own patches would
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

enum { MAX_TEXT = 1 << 20 /* bytes of a file whose lines are compared */ };

/* ---- sides ---- */

void rp_git_side_fini(struct rp_git_side *s)
{
    rp_buf_fini(&s->bytes);
}

static void identify_side(struct rp_git_side *s)
{
    git_oid id;
    rp_sha256_hex(s->sha256, rp_buf_text(&s->bytes), s->bytes.size);
    if (git_odb_hash(&id, rp_buf_text(&s->bytes), s->bytes.size, GIT_OBJECT_BLOB) == 0)
        git_oid_tostr(s->id, sizeof s->id, &id);
}

int rp_git_read_old(struct rp_git_side *s, git_repository *repo, const git_diff_file *f)
{
    git_odb *odb = NULL;
    git_blob *blob = NULL;
    git_object_t type;
    size_t size;
    *s = (struct rp_git_side){.exists = 1, .mode = f->mode};
    if (git_repository_odb(&odb, repo) < 0 || git_odb_read_header(&size, &type, odb, &f->id) < 0 || type != GIT_OBJECT_BLOB)
        return -1;
    s->large = size > MAX_TEXT;
    if (s->large) {
        git_oid_tostr(s->id, sizeof s->id, &f->id);
        return 0;
    }
    if (git_blob_lookup(&blob, repo, &f->id) < 0)
        return -1;
    rp_buf_add(&s->bytes, git_blob_rawcontent(blob), (size_t)git_blob_rawsize(blob));
    git_blob_free(blob);
    identify_side(s);
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

/* A file too large to be compared: its digest. */
static int digest_large(struct rp_git_side *s, int fd, uint64_t deadline)
{
    static char block[65536];
    struct rp_sha256 h;
    ssize_t n;
    rp_sha256_init(&h);
    while ((n = read(fd, block, sizeof block)) > 0) {
        rp_sha256_update(&h, block, (size_t)n);
        if (rp_now_ns() > deadline)
            return -1;
    }
    rp_sha256_final_hex(&h, s->sha256);
    s->large = 1;
    s->exists = n == 0;
    return n < 0 ? -1 : 0;
}

int rp_git_read_new(struct rp_git_side *s, git_repository *repo, const char *path, uint64_t deadline)
{
    char block[4096];
    struct stat st;
    const char *name;
    *s = (struct rp_git_side){0};
    RP_FD dir = open_parent(repo, path, &name);
    ssize_t n = dir < 0 ? -1 : readlinkat(dir, name, block, sizeof block);
    if (n >= 0) {
        s->mode = GIT_FILEMODE_LINK;
        rp_buf_add(&s->bytes, block, (size_t)n);
        identify_side(s);
        s->exists = 1;
        return 0;
    }
    RP_FD fd = dir < 0 ? -1 : openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return -1;
    s->mode = st.st_mode & 0100 ? GIT_FILEMODE_BLOB_EXECUTABLE : GIT_FILEMODE_BLOB;
    if (st.st_size > MAX_TEXT)
        return digest_large(s, fd, deadline);
    while ((n = read(fd, block, sizeof block)) > 0 && s->bytes.size <= MAX_TEXT)
        rp_buf_add(&s->bytes, block, (size_t)n);
    identify_side(s);
    s->exists = n == 0;
    return n == 0 ? 0 : -1;
}

/* ---- the difference ---- */

static int add_line(const git_diff_delta *d, const git_diff_hunk *h, const git_diff_line *l, void *ctx)
{
    struct rp_buf *out = ctx;
    (void)d, (void)h;
    if (l->origin == GIT_DIFF_LINE_FILE_HDR || l->origin == GIT_DIFF_LINE_BINARY)
        return 0;
    if (l->origin == GIT_DIFF_LINE_CONTEXT || l->origin == GIT_DIFF_LINE_ADDITION || l->origin == GIT_DIFF_LINE_DELETION)
        rp_buf_add(out, &l->origin, 1);
    rp_buf_add(out, l->content, l->content_len);
    return 0;
}

static void add_head(struct rp_buf *out, const char *path, const struct rp_git_side *from, const struct rp_git_side *to)
{
    static const char none[] = "0000000000000000000000000000000000000000";
    rp_buf_printf(out, "diff --git a/%s b/%s\n", path, path);
    if (!from->exists)
        rp_buf_printf(out, "new file mode %06o\n", to->mode);
    else if (!to->exists)
        rp_buf_printf(out, "deleted file mode %06o\n", from->mode);
    else if (from->mode != to->mode)
        rp_buf_printf(out, "old mode %06o\nnew mode %06o\n", from->mode, to->mode);
    if (strcmp(from->id, to->id) != 0 || !*to->id)
        rp_buf_printf(out, "index %s..%s", *from->id ? from->id : none, *to->id ? to->id : none);
    else
        return;
    if (from->exists && from->mode == to->mode)
        rp_buf_printf(out, " %06o", to->mode);
    rp_buf_puts(out, "\n");
}

int rp_git_difference(struct rp_buf *out, const char *path, const struct rp_git_side *from, const struct rp_git_side *to)
{
    const struct rp_buf *a = &from->bytes, *b = &to->bytes;
    git_patch *patch = NULL;
    git_diff_options o;
    RP_FREE char *name = rp_strdup(path);
    rp_sanitize(name);
    add_head(out, name, from, to);
    if (from->large || to->large || memchr(rp_buf_text(a), 0, a->size) || memchr(rp_buf_text(b), 0, b->size)) {
        rp_buf_printf(out, "Binary files %s%s and %s%s differ (SHA-256 %s)\n", from->exists ? "a/" : "", from->exists ? name : "/dev/null",
                      to->exists ? "b/" : "", to->exists ? name : "/dev/null", *to->sha256 ? to->sha256 : "none");
        return 0;
    }
    if (a->size == b->size && memcmp(rp_buf_text(a), rp_buf_text(b), a->size) == 0)
        return 0;
    const char *end = strchr(name, ' ') ? "\t" : ""; /* where a patch would not see the end of the name */
    rp_buf_printf(out, "--- %s%s%s\n+++ %s%s%s\n", from->exists ? "a/" : "", from->exists ? name : "/dev/null", from->exists ? end : "",
                  to->exists ? "b/" : "", to->exists ? name : "/dev/null", to->exists ? end : "");
    git_diff_options_init(&o, GIT_DIFF_OPTIONS_VERSION);
    o.flags = GIT_DIFF_FORCE_TEXT | GIT_DIFF_INDENT_HEURISTIC;
    int rc = git_patch_from_buffers(&patch, rp_buf_text(a), a->size, "a", rp_buf_text(b), b->size, "b", &o);
    if (rc == 0)
        rc = git_patch_print(patch, add_line, out);
    git_patch_free(patch);
    return rc < 0 ? -1 : 0;
}

/* Reading: one loop over the entries, the refusals, and three things to do with an entry: unpack, load, list. */
#include "data/archive.h"

#include "base/foreign.h"
#include "base/interrupt.h"
#include "data/archive_tree.h"
#include "data/names.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCK 65536
#define NOT_AN_ARCHIVE "not a tar or zip archive that can be read"

struct archive_reader {
    const struct rp_archive_source *s;
    struct rp_archive_limits limits;
    uint64_t entries, bytes; /* so far */
    struct rp_path_set names;
    struct archive *a;
};

/* What is done with an entry that passed the checks; kind as in rp_path_set_add(). */
typedef int (*entry_fn)(struct archive_reader *r, struct archive_entry *e, const char *name, char kind, void *arg,
                        struct rp_err *err);

/* ---- reading ---- */

static int fail_archive(struct archive_reader *r, const char *doing, struct rp_err *err)
{
    const char *text = archive_error_string(r->a);
    return rp_fail(err, archive_errno(r->a) == EIO ? RP_IO : RP_MALFORMED, "%s: %s", doing,
                   text ? text : "unknown error");
}

static int open_reader(struct archive_reader *r, struct rp_err *err)
{
    struct archive *a = r->a = archive_read_new();
    if (!a)
        return rp_fail(err, RP_UNAVAILABLE, "out of memory");
    archive_read_support_format_tar(a);
    archive_read_support_format_zip(a);
    archive_read_support_filter_gzip(a);
    archive_read_support_filter_xz(a);
    archive_read_support_filter_zstd(a);
    archive_read_support_filter_lz4(a);
    archive_read_support_filter_bzip2(a);
    if (r->s->fd >= 0 && lseek(r->s->fd, 0, SEEK_SET) < 0)
        return rp_fail(err, RP_IO, "cannot be read: %s", strerror(errno));
    const char *kind = r->s->fd < 0 ? NULL : rp_foreign_kind_fd(r->s->fd);
    if (kind)
        return rp_fail(err, RP_MALFORMED, "the file %s", kind);
    int rc = r->s->fd < 0 ? archive_read_open_memory(a, r->s->data, (size_t)r->s->size)
                          : archive_read_open_fd(a, r->s->fd, BLOCK);
    return rc == ARCHIVE_OK ? 0 : fail_archive(r, NOT_AN_ARCHIVE, err);
}

static void close_reader(struct archive_reader *r)
{
    archive_read_free(r->a);
    rp_path_set_fini(&r->names);
}

/* ---- refusals ---- */

/* Counts bytes that are unpacked, or that a member's header announces. */
static int count_unpacked(struct archive_reader *r, uint64_t bytes, struct rp_err *err)
{
    if (bytes > r->limits.bytes || r->bytes > r->limits.bytes - bytes)
        return rp_fail(err, RP_MALFORMED, "more than %llu bytes unpacked, the limit",
                       (unsigned long long)r->limits.bytes);
    r->bytes += bytes;
    if (r->bytes > RP_ARCHIVE_RATIO_FREE && r->bytes / r->limits.ratio > r->s->size)
        return rp_fail(err, RP_MALFORMED, "more than %llu bytes unpacked for every byte of the archive, the limit",
                       (unsigned long long)r->limits.ratio);
    return 0;
}

static int kind_of(struct archive_entry *e, char *kind, struct rp_err *err)
{
    if (archive_entry_hardlink(e))
        return rp_fail(err, RP_MALFORMED, "a hard link");
    switch (archive_entry_filetype(e)) {
    case AE_IFREG: *kind = 'f'; return 0;
    case AE_IFDIR: *kind = 'd'; return 0;
    case AE_IFLNK: *kind = 'l'; return 0;
    case AE_IFCHR:
    case AE_IFBLK: return rp_fail(err, RP_MALFORMED, "a device");
    case AE_IFIFO: return rp_fail(err, RP_MALFORMED, "a FIFO");
    case AE_IFSOCK: return rp_fail(err, RP_MALFORMED, "a socket");
    default: return rp_fail(err, RP_MALFORMED, "neither file, directory nor link");
    }
}

static int check_entry(struct archive_reader *r, struct archive_entry *e, char *name, char *kind, struct rp_err *err)
{
    if (kind_of(e, kind, err) < 0)
        return -1;
    size_t n = strlen(name);
    while (*kind == 'd' && n > 1 && name[n - 1] == '/')
        name[--n] = 0;
    if (rp_name_check(name, err) < 0 || rp_path_set_add(&r->names, name, *kind, err) < 0)
        return -1;
    if (archive_entry_is_encrypted(e))
        return rp_fail(err, RP_MALFORMED, "encrypted; unpack it with its password and name the directory instead");
    const char *target = archive_entry_symlink(e);
    if (*kind == 'l' && rp_name_check_link(name, target ? target : "", err) < 0)
        return -1;
    if (*kind != 'f')
        return 0;
    return archive_entry_size_is_set(e) && archive_entry_size(e) > 0
               ? count_unpacked(r, (uint64_t)archive_entry_size(e), err)
               : 0;
}

/* The entry's name as raw bytes without a leading "./", "" for the root; NULL if libarchive cannot represent it. */
static char *name_of(struct archive_entry *e)
{
    const char *p = archive_entry_pathname(e);
    if (!p)
        p = archive_entry_pathname_utf8(e);
    if (!p)
        return NULL;
    while (p[0] == '.' && p[1] == '/') {
        p += 2;
        while (*p == '/')
            p++;
    }
    return rp_strdup(strcmp(p, ".") == 0 ? "" : p);
}

static int one_entry(struct archive_reader *r, struct archive_entry *e, entry_fn act, void *arg, struct rp_err *err)
{
    char kind = 0;
    RP_FREE char *name = name_of(e);
    if (++r->entries > r->limits.entries)
        return rp_fail(err, RP_MALFORMED, "more than %llu members, the limit", (unsigned long long)r->limits.entries);
    if (!name)
        return rp_fail(err, RP_MALFORMED, "member %llu: its name is not UTF-8", (unsigned long long)r->entries);
    if (!*name && archive_entry_filetype(e) == AE_IFDIR) /* "./": the directory itself, as `tar c .` writes it */
        return 0;
    if (check_entry(r, e, name, &kind, err) < 0 || act(r, e, name, kind, arg, err) < 0)
        return rp_wrap(err, "member '%.200s'", name);
    return 0;
}

static int every_entry(struct archive_reader *r, entry_fn act, void *arg, struct rp_err *err)
{
    struct archive_entry *e;
    if (open_reader(r, err) < 0)
        return -1;
    for (;;) {
        int rc = archive_read_next_header(r->a, &e);
        if (rc == ARCHIVE_EOF)
            break;
        /* The only warning that does not mean damage: a name outside ASCII, which this program checks as bytes. */
        const char *text = archive_error_string(r->a);
        if (rc != ARCHIVE_OK && !(rc == ARCHIVE_WARN && text && strstr(text, "can't be converted")))
            return fail_archive(r, r->entries ? "damaged archive" : NOT_AN_ARCHIVE, err);
        if (archive_filter_count(r->a) > 2) /* one compression and the file itself */
            return rp_fail(err, RP_MALFORMED, "compressed more than once");
        if (one_entry(r, e, act, arg, err) < 0)
            return -1;
    }
    return r->entries ? 0 : rp_fail(err, RP_MALFORMED, "no members: it is empty, or not a tar or zip archive");
}

static int read_archive(const struct rp_archive_source *s, const struct rp_archive_limits *limits, entry_fn act,
                        void *arg, struct rp_err *err)
{
    const struct rp_archive_limits own = RP_ARCHIVE_LIMITS;
    struct archive_reader r = {.s = s, .limits = limits ? *limits : own};
    int failed = every_entry(&r, act, arg, err) < 0;
    close_reader(&r);
    return failed ? rp_wrap(err, "archive '%s'", s->name) : 0;
}

/* Passes the data of an entry to put(); bytes beyond the announced size are counted as well. */
typedef int (*put_fn)(void *arg, const void *data, size_t size, int64_t offset, struct rp_err *err);

static int entry_data(struct archive_reader *r, struct archive_entry *e, put_fn put, void *arg, struct rp_err *err)
{
    uint64_t claimed = archive_entry_size_is_set(e) && archive_entry_size(e) > 0 ? (uint64_t)archive_entry_size(e) : 0;
    for (;;) {
        const void *data;
        size_t size;
        la_int64_t offset;
        int rc = archive_read_data_block(r->a, &data, &size, &offset);
        if (rc == ARCHIVE_EOF)
            return 0;
        if (rc != ARCHIVE_OK)
            return fail_archive(r, "damaged", err);
        uint64_t end = (uint64_t)offset + size;
        if (offset < 0 || end < size || (end > claimed && count_unpacked(r, end - claimed, err) < 0))
            return offset < 0 || end < size ? rp_fail(err, RP_MALFORMED, "impossible offset") : -1;
        claimed = end > claimed ? end : claimed;
        if (put(arg, data, size, offset, err) < 0)
            return -1;
    }
}

/* ---- unpack ---- */

static int put_tree(void *arg, const void *data, size_t size, int64_t offset, struct rp_err *err)
{
    return rp_archive_tree_add(arg, data, size, offset, err);
}

static int unpack_entry(struct archive_reader *r, struct archive_entry *e, const char *name, char kind, void *arg,
                        struct rp_err *err)
{
    struct rp_archive_tree *tree = arg;
    if (kind == 'd')
        return rp_archive_tree_directory(tree, name, err);
    if (kind == 'l')
        return rp_archive_tree_link(tree, name, archive_entry_symlink(e), err);
    if (rp_archive_tree_begin(tree, name, err) < 0 || entry_data(r, e, put_tree, tree, err) < 0)
        return -1;
    return rp_archive_tree_end(tree, name, archive_entry_size_is_set(e) ? archive_entry_size(e) : 0, err);
}

/* What the child writes into its pipe; the list of files follows. */
struct archive_answer {
    int failed;
    struct rp_err err;
    size_t list;
};

static void unpack_here(const struct rp_archive_source *s, const char *dir, const struct rp_archive_limits *limits,
                        struct archive_answer *out, struct rp_buf *list)
{
    struct rp_archive_tree tree;
    umask(022);
    if (rp_archive_tree_init(&tree, dir, &out->err) < 0) {
        out->failed = -1;
        return;
    }
    out->failed = read_archive(s, limits, unpack_entry, &tree, &out->err);
    if (!out->failed)
        rp_marker_list_text(list, &tree.list);
    rp_archive_tree_fini(&tree);
}

__attribute__((noreturn)) static void run_child(const struct rp_archive_source *s, const char *dir,
                                                const struct rp_archive_limits *limits, int fd, pid_t parent)
{
    struct archive_answer a = {0};
    RP_BUF list = {0};
    signal(SIGINT, SIG_DFL); /* the parent's handlers set a flag that nothing in the child reads */
    rp_interrupt_release();
    signal(SIGXFSZ, SIG_IGN);     /* exceeding a file size limit then makes write() fail, which has a message */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent)
        unpack_here(s, dir, limits, &a, &list);
    a.list = list.size;
    _exit(rp_write_all(fd, &a, sizeof a) < 0 || rp_write_all(fd, rp_buf_text(&list), list.size) < 0);
}

/* All that the child writes. -1 if it ended without an answer, or was stopped because of an interrupt. */
static int read_answer(int fd, pid_t child_pid, struct archive_answer *a, struct rp_buf *list)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    RP_BUF all = {0};
    char bytes[65536];
    ssize_t n;
    do {
        do
            if (rp_interrupted()) {
                kill(child_pid, SIGTERM);
                return -1;
            }
        while (poll(&p, 1, 100) <= 0);
        n = RP_RETRY(read(fd, bytes, sizeof bytes));
        rp_buf_add(&all, bytes, n > 0 ? (size_t)n : 0);
    } while (n > 0);
    if (n < 0 || all.size < sizeof *a)
        return -1;
    memcpy(a, all.data, sizeof *a);
    rp_buf_add(list, all.data + sizeof *a, all.size - sizeof *a);
    return a->list == list->size ? 0 : -1;
}

int rp_archive_unpack(const struct rp_archive_source *s, const char *dir, const struct rp_archive_limits *limits,
                      struct rp_buf *list, struct rp_err *err)
{
    int ends[2], status = 0;
    struct archive_answer a;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return rp_fail(err, RP_UNAVAILABLE, "cannot make a pipe: %s", strerror(errno));
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        run_child(s, dir, limits, ends[1], parent);
    close(ends[1]);
    int got = pid < 0 ? -1 : read_answer(ends[0], pid, &a, list);
    close(ends[0]);
    if (pid < 0)
        return rp_fail(err, RP_UNAVAILABLE, "cannot start a process to unpack in: %s", strerror(errno));
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    int sig = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (got < 0 && (rp_interrupted() || sig == SIGINT || sig == SIGTERM || sig == SIGHUP))
        return rp_fail(err, RP_INTERRUPTED, "interrupted while unpacking '%s'", s->name);
    if (got < 0)
        return rp_fail(err, sig == SIGKILL ? RP_UNAVAILABLE : RP_MALFORMED, "archive '%s': unpacking it %s (%s)",
                       s->name, sig == SIGKILL ? "was killed, out of memory?" : "crashed the decompressor",
                       sig ? strsignal(sig) : "exit");
    if (a.failed)
        *err = a.err;
    return a.failed ? -1 : 0;
}

/* ---- load ---- */

struct load {
    struct rp_archive_member *member;
    int n;
};

static int put_memory(void *arg, const void *data, size_t size, int64_t offset, struct rp_err *err)
{
    static const char zero[4096];
    struct rp_buf *b = arg;
    (void)err;
    while (b->size < (uint64_t)offset) { /* a hole of a sparse member, already counted */
        size_t n = (size_t)((uint64_t)offset - b->size);
        rp_buf_add(b, zero, n < sizeof zero ? n : sizeof zero);
    }
    rp_buf_add(b, data, size);
    return 0;
}

static int load_entry(struct archive_reader *r, struct archive_entry *e, const char *name, char kind, void *arg,
                      struct rp_err *err)
{
    struct load *l = arg;
    struct rp_buf b = {0};
    if (kind != 'f')
        return 0;
    if (entry_data(r, e, put_memory, &b, err) < 0) {
        rp_buf_fini(&b);
        return -1;
    }
    if ((l->n & (l->n - 1)) == 0)
        l->member = rp_realloc(l->member, (l->n ? 2 * (size_t)l->n : 1) * sizeof *l->member);
    l->member[l->n].name = rp_strdup(name);
    l->member[l->n].size = b.size;
    l->member[l->n++].data = (unsigned char *)rp_buf_take(&b);
    return 0;
}

int rp_archive_load(const struct rp_archive_source *s, uint64_t max_bytes, struct rp_archive_member **member, int *n,
                    struct rp_err *err)
{
    struct rp_archive_limits limits = RP_ARCHIVE_LIMITS;
    struct load l = {0};
    limits.bytes = max_bytes;
    if (read_archive(s, &limits, load_entry, &l, err) < 0) {
        rp_archive_members_free(l.member, l.n);
        return -1;
    }
    *member = l.member;
    *n = l.n;
    return 0;
}

void rp_archive_members_free(struct rp_archive_member *member, int n)
{
    for (int i = 0; i < n; i++) {
        free(member[i].name);
        free(member[i].data);
    }
    free(member);
}

/* ---- list ---- */

struct visit {
    rp_archive_visit_fn fn;
    void *arg;
};

static int list_entry(struct archive_reader *r, struct archive_entry *e, const char *name, char kind, void *arg,
                      struct rp_err *err)
{
    struct visit *v = arg;
    (void)r;
    if (v->fn(v->arg, name, kind, kind == 'f' ? (uint64_t)archive_entry_size(e) : 0))
        return rp_fail(err, RP_INTERRUPTED, "interrupted");
    return 0;
}

int rp_archive_list(const struct rp_archive_source *s, const struct rp_archive_limits *limits,
                    rp_archive_visit_fn visit, void *arg, struct rp_err *err)
{
    struct visit v = {visit, arg};
    return read_archive(s, limits, list_entry, &v, err);
}

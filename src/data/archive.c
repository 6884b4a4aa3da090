/* libarchive behind a list of refusals. */
#include "data/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define READ_BLOCK 65536

/* -- names seen so far: open addressing over FNV-1a of the ASCII-lower-cased name -- */

struct seen {
    char *name; /* as in the archive, without "./" and "/" at the ends; NULL: free slot */
    char type;
};
struct names {
    struct seen *slot;
    size_t cap, n;
};

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static int same_up_to_case(const char *a, const char *b)
{
    while (*a && lower(*a) == lower(*b))
        a++, b++;
    return lower(*a) == lower(*b);
}

static struct seen *look_up(const struct names *t, const char *name)
{
    uint64_t h = 14695981039346656037u;
    for (const char *p = name; *p; p++)
        h = (h ^ (unsigned char)lower(*p)) * 1099511628211u;
    size_t i = (size_t)(h % t->cap);
    while (t->slot[i].name && !same_up_to_case(t->slot[i].name, name))
        i = (i + 1) % t->cap;
    return &t->slot[i];
}

static void remember(struct names *t, const char *name, char type)
{
    if (2 * (t->n + 1) > t->cap) {
        struct names bigger = {.cap = t->cap ? 4 * t->cap : 256};
        bigger.slot = rp_alloc(bigger.cap * sizeof *bigger.slot);
        for (size_t i = 0; i < t->cap; i++)
            if (t->slot[i].name)
                *look_up(&bigger, t->slot[i].name) = t->slot[i];
        bigger.n = t->n;
        free(t->slot);
        *t = bigger;
    }
    *look_up(t, name) = (struct seen){rp_strdup(name), type};
    t->n++;
}

static void forget(struct names *t)
{
    for (size_t i = 0; i < t->cap; i++)
        free(t->slot[i].name);
    free(t->slot);
}

/* -- what a member may be called -- */

/* Length of the UTF-8 sequence at p, 0 if it is none (overlong forms and surrogates are none). */
static int utf8(const unsigned char *p)
{
    if (p[0] < 0x80)
        return 1;
    int n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    uint32_t v = p[0] & (0xffu >> (n + 1));
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (p[0] < 0xc2 || p[0] > 0xf4)
        return 0;
    for (int i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        v = v << 6 | (p[i] & 0x3f);
    }
    return v >= least[n] && v <= 0x10ffff && (v < 0xd800 || v > 0xdfff) ? n : 0;
}

/* NULL, or why the path is refused. */
static const char *bad_path(const char *path)
{
    if (!path || !*path)
        return "it has no name";
    if (strlen(path) > RP_ARCHIVE_NAME)
        return "its name is too long";
    if (*path == '/')
        return "its path is absolute";
    for (const unsigned char *p = (const unsigned char *)path; *p; p += utf8(p)) {
        if (!utf8(p))
            return "its name is not UTF-8";
        if (*p < 0x20 || *p == 0x7f || *p == '\\')
            return "its name has a control character or a backslash";
    }
    for (const char *p = path;;) {
        size_t n = strcspn(p, "/");
        if (n == 0)
            return "its path has an empty component";
        if (n == 2 && p[0] == '.' && p[1] == '.')
            return "its path has '..'";
        if (n == 1 && *p == '.')
            return "its path has '.'";
        if (strncmp(p, ".repro", 6) == 0)
            return "names that begin with '.repro' are reserved";
        if (!p[n])
            return NULL;
        p += n + 1;
    }
}

/* A symbolic link may go up no further than its own folder lies deep, and only in front. */
static const char *bad_link(const char *path, const char *target)
{
    int depth = 0, up = 0;
    if (!target || !*target || *target == '/')
        return "a symbolic link that leaves the archive";
    for (const char *p = path; (p = strchr(p, '/')); p++)
        depth++;
    const char *p = target;
    for (; strncmp(p, "../", 3) == 0; p += 3)
        up++;
    if (up > depth || bad_path(p))
        return "a symbolic link that leaves the archive";
    return NULL;
}

/* -- one walk over an archive -- */

struct walk {
    const struct rp_archive_source *s;
    struct rp_archive_limits limits;
    struct rp_archive_stats stats;
    struct archive *a;
    struct names names;
    char path[RP_ARCHIVE_NAME + 2]; /* of the member at hand, cleaned */
    char type;
    struct rp_err *err;
};
/* Called for every member that passed; reads its data with next_block(). */
typedef int (*member_fn)(struct walk *w, struct archive_entry *e, void *arg);

static int refuse(struct walk *w, const char *why)
{
    return rp_fail(w->err, RP_MALFORMED, "archive '%s', member '%s': %s; it was not unpacked", w->s->name, w->path, why);
}

static int broken(struct walk *w)
{
    const char *text = archive_error_string(w->a);
    int e = archive_errno(w->a);
    enum rp_code code = e == EIO || e == ENOMEM ? RP_IO : RP_MALFORMED;
    return rp_fail(w->err, code, "archive '%s': %s", w->s->name, text ? text : "it cannot be read");
}

/* Copy the entry's name without "./" in front and "/" at the end; 0: a member, 1: the archive's own top, to be skipped. */
static int clean_path(struct walk *w, struct archive_entry *e)
{
    const char *p = archive_entry_pathname(e);
    p = p ? p : "";
    while (strncmp(p, "./", 2) == 0)
        p += 2;
    snprintf(w->path, sizeof w->path, "%s", p);
    size_t n = strlen(w->path);
    if (n > 1 && w->path[n - 1] == '/' && archive_entry_filetype(e) == AE_IFDIR)
        w->path[n - 1] = 0;
    return (!*w->path || strcmp(w->path, ".") == 0) && archive_entry_filetype(e) == AE_IFDIR;
}

static int check_parents(struct walk *w)
{
    if (!w->names.cap)
        return 0;
    for (char *p = w->path; (p = strchr(p, '/')); p++) {
        *p = 0;
        const struct seen *s = look_up(&w->names, w->path);
        int bad = s->name && (s->type != 'd' || strcmp(s->name, w->path) != 0);
        *p = '/';
        if (bad)
            return refuse(w, "a folder on its path is a file or link, or differs only in case");
    }
    return 0;
}

static int check_entry(struct walk *w, struct archive_entry *e)
{
    const char *why = bad_path(w->path);
    if (why)
        return refuse(w, why);
    if (archive_entry_hardlink(e))
        return refuse(w, "it is a hard link");
    switch (archive_entry_filetype(e)) {
    case AE_IFREG: w->type = 'f'; break;
    case AE_IFDIR: w->type = 'd'; break;
    case AE_IFLNK: w->type = 'l'; break;
    default: return refuse(w, "it is a device, FIFO or socket");
    }
    if (w->type == 'l' && (why = bad_link(w->path, archive_entry_symlink(e))))
        return refuse(w, why);
    if (archive_entry_is_encrypted(e))
        return refuse(w, "it is encrypted");
    if (w->names.cap && look_up(&w->names, w->path)->name)
        return refuse(w, "another member has the same name, or one that differs only in case");
    if (check_parents(w) < 0)
        return -1;
    remember(&w->names, w->path, w->type);
    if (++w->stats.entries > w->limits.entries)
        return rp_fail(w->err, RP_MALFORMED, "archive '%s' has more than %llu members", w->s->name,
                       (unsigned long long)w->limits.entries);
    w->stats.files += w->type == 'f';
    int64_t size = archive_entry_size_is_set(e) ? archive_entry_size(e) : 0;
    if (size < 0 || (uint64_t)size > w->limits.bytes)
        return refuse(w, "it claims more bytes than the limit for the whole archive");
    return 0;
}

static int count_bytes(struct walk *w, uint64_t n)
{
    w->stats.bytes += n;
    if (w->stats.bytes > w->limits.bytes)
        return rp_fail(w->err, RP_MALFORMED, "archive '%s' unpacks to more than %llu bytes", w->s->name,
                       (unsigned long long)w->limits.bytes);
    int64_t in = archive_filter_bytes(w->a, -1);
    uint64_t packed = in > 0 ? (uint64_t)in : 1;
    if (w->stats.bytes > RP_ARCHIVE_RATIO_FREE && w->stats.bytes / packed > w->limits.ratio)
        return rp_fail(w->err, RP_MALFORMED, "archive '%s' unpacks to more than %llu times its size", w->s->name,
                       (unsigned long long)w->limits.ratio);
    return 0;
}

/* 1 and a block, 0 at the member's end, -1. Holes of sparse members count. */
static int next_block(struct walk *w, const void **data, size_t *size, int64_t *offset, int64_t *end)
{
    la_int64_t at = 0;
    int rc = archive_read_data_block(w->a, data, size, &at);
    if (rc == ARCHIVE_EOF)
        return 0;
    if (rc < ARCHIVE_WARN)
        return broken(w);
    if (at < *end)
        return refuse(w, "its data overlaps");
    if (count_bytes(w, (uint64_t)(at - *end) + *size) < 0)
        return -1;
    *offset = at;
    *end = at + (int64_t)*size;
    return 1;
}

static int open_archive(struct walk *w)
{
    w->a = archive_read_new();
    if (!w->a)
        return rp_fail(w->err, RP_UNAVAILABLE, "out of memory");
    archive_read_support_format_tar(w->a);
    archive_read_support_format_zip(w->a);
    archive_read_support_filter_gzip(w->a);
    archive_read_support_filter_xz(w->a);
    archive_read_support_filter_zstd(w->a);
    archive_read_support_filter_lz4(w->a);
    archive_read_support_filter_bzip2(w->a);
    int rc;
    if (w->s->fd < 0)
        rc = archive_read_open_memory(w->a, w->s->data, (size_t)w->s->size);
    else if (lseek(w->s->fd, 0, SEEK_SET) < 0)
        return rp_fail(w->err, RP_IO, "cannot read '%s' from its start: %s", w->s->name, strerror(errno));
    else
        rc = archive_read_open_fd(w->a, w->s->fd, READ_BLOCK);
    if (rc != ARCHIVE_OK)
        return rp_fail(w->err, RP_MALFORMED, "'%s' is no archive that can be read (tar or zip; gz, xz, zst, lz4, bz2): %s",
                       w->s->name, archive_error_string(w->a) ? archive_error_string(w->a) : "unknown form");
    return 0;
}

static int walk_members(struct walk *w, member_fn fn, void *arg)
{
    struct archive_entry *e;
    int rc;
    if (open_archive(w) < 0)
        return -1;
    while ((rc = archive_read_next_header(w->a, &e)) == ARCHIVE_OK || rc == ARCHIVE_WARN) {
        if (archive_filter_count(w->a) > 2) /* the last one is "none" */
            return rp_fail(w->err, RP_MALFORMED, "archive '%s' is compressed more than once", w->s->name);
        if (clean_path(w, e))
            continue;
        if (check_entry(w, e) < 0 || fn(w, e, arg) < 0)
            return -1;
    }
    if (rc != ARCHIVE_EOF)
        return broken(w);
    if (w->stats.entries == 0)
        return rp_fail(w->err, RP_MALFORMED, "archive '%s' is empty", w->s->name);
    return 0;
}

static int run_walk(struct walk *w, member_fn fn, void *arg)
{
    int rc = walk_members(w, fn, arg);
    archive_read_free(w->a);
    forget(&w->names);
    return rc;
}

/* -- unpacking -- */

static int write_failed(struct walk *w, struct archive *disk)
{
    int e = archive_errno(disk);
    return rp_fail(w->err, RP_IO, "unpacking '%s', member '%s': %s%s", w->s->name, w->path,
                   archive_error_string(disk) ? archive_error_string(disk) : "cannot write",
                   e == ENOSPC || e == EDQUOT ? "; free some space, or name another place with --store or $REPRO_STORE" : "");
}

static int unpack_member(struct walk *w, struct archive_entry *e, void *arg)
{
    struct archive *disk = arg;
    const void *data;
    size_t size;
    int64_t offset = 0, end = 0;
    int got;
    archive_entry_set_pathname(e, w->path);
    archive_entry_set_perm(e, w->type == 'd' ? 0755 : 0644);
    if (archive_write_header(disk, e) != ARCHIVE_OK)
        return write_failed(w, disk);
    while (w->type == 'f' && (got = next_block(w, &data, &size, &offset, &end)) != 0) {
        if (got < 0)
            return -1;
        if (size && archive_write_data_block(disk, data, size, offset) < ARCHIVE_OK)
            return write_failed(w, disk);
    }
    return archive_write_finish_entry(disk) == ARCHIVE_OK ? 0 : write_failed(w, disk);
}

/* What the child tells its parent. */
struct outcome {
    int failed;
    struct rp_archive_stats stats;
    struct rp_err err;
};

static void unpack_child(struct outcome *o, const struct rp_archive_source *s, const char *dir, const struct rp_archive_limits *limits)
{
    struct walk w = {.s = s, .limits = *limits, .err = &o->err};
    umask(022);
    if (chdir(dir) < 0) {
        o->failed = rp_fail(&o->err, RP_IO, "cannot enter '%s': %s", dir, strerror(errno)) < 0;
        return;
    }
    struct archive *disk = archive_write_disk_new();
    archive_write_disk_set_options(disk, ARCHIVE_EXTRACT_SECURE_SYMLINKS | ARCHIVE_EXTRACT_SECURE_NODOTDOT |
                                             ARCHIVE_EXTRACT_SECURE_NOABSOLUTEPATHS | ARCHIVE_EXTRACT_NO_OVERWRITE);
    o->failed = run_walk(&w, unpack_member, disk) < 0;
    if (archive_write_close(disk) != ARCHIVE_OK && !o->failed)
        o->failed = write_failed(&w, disk) < 0;
    archive_write_free(disk);
    o->stats = w.stats;
}

static int read_outcome(int fd, struct outcome *o)
{
    size_t have = 0;
    while (have < sizeof *o) {
        ssize_t n = read(fd, (char *)o + have, sizeof *o - have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        have += (size_t)n;
    }
    return 0;
}

int rp_archive_unpack(const struct rp_archive_source *s, const char *dir, const struct rp_archive_limits *limits,
                      struct rp_archive_stats *stats, struct rp_err *err)
{
    int p[2], status = 0;
    struct outcome o;
    memset(&o, 0, sizeof o);
    if (pipe2(p, O_CLOEXEC) < 0)
        return rp_fail(err, RP_IO, "cannot make a pipe: %s", strerror(errno));
    pid_t pid = fork();
    if (pid == 0) {
        unpack_child(&o, s, dir, limits);
        _exit(rp_write_all(p[1], &o, sizeof o) < 0);
    }
    close(p[1]);
    int silent = pid < 0 || read_outcome(p[0], &o) < 0;
    close(p[0]);
    if (pid < 0)
        return rp_fail(err, RP_UNAVAILABLE, "cannot start a process to unpack '%s': %s", s->name, strerror(errno));
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (silent)
        return rp_fail(err, RP_MALFORMED, "unpacking '%s' ended the unpacker (signal %d); the archive is damaged or hostile", s->name,
                       WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    *stats = o.stats;
    if (o.failed)
        *err = o.err;
    return o.failed ? -1 : 0;
}

/* -- listing -- */

struct listing {
    rp_archive_visit_fn visit;
    void *arg;
};

static int list_member(struct walk *w, struct archive_entry *e, void *arg)
{
    const struct listing *l = arg;
    const void *data;
    size_t size;
    int64_t offset = 0, end = 0;
    int got;
    (void)e;
    while (w->type == 'f' && (got = next_block(w, &data, &size, &offset, &end)) != 0)
        if (got < 0)
            return -1;
    if (l->visit && l->visit(l->arg, w->path, w->type, (uint64_t)end))
        return rp_fail(w->err, RP_INTERRUPTED, "interrupted");
    return 0;
}

int rp_archive_list(const struct rp_archive_source *s, const struct rp_archive_limits *limits, rp_archive_visit_fn visit, void *arg,
                    struct rp_archive_stats *stats, struct rp_err *err)
{
    struct walk w = {.s = s, .limits = *limits, .err = err};
    struct listing l = {visit, arg};
    int rc = run_walk(&w, list_member, &l);
    *stats = w.stats;
    return rc;
}

/* -- into memory -- */

struct loading {
    struct rp_archive_member *member;
    int n;
};

static int load_member(struct walk *w, struct archive_entry *e, void *arg)
{
    struct loading *l = arg;
    const void *data;
    size_t size;
    int64_t offset = 0, end = 0;
    int got;
    RP_BUF bytes = {0};
    (void)e;
    if (w->type != 'f')
        return 0;
    while ((got = next_block(w, &data, &size, &offset, &end)) != 0) {
        static const char zeros[4096];
        if (got < 0)
            return -1;
        while (bytes.size < (size_t)offset)
            rp_buf_add(&bytes, zeros, (size_t)offset - bytes.size < sizeof zeros ? (size_t)offset - bytes.size : sizeof zeros);
        rp_buf_add(&bytes, data, size);
    }
    rp_buf_add(&bytes, "", 0);
    l->member = rp_realloc(l->member, (size_t)(l->n + 1) * sizeof *l->member);
    size = bytes.size;
    l->member[l->n++] = (struct rp_archive_member){rp_strdup(w->path), (unsigned char *)rp_buf_take(&bytes), size};
    return 0;
}

int rp_archive_load(const struct rp_archive_source *s, uint64_t max_bytes, struct rp_archive_member **member, int *n,
                    struct rp_err *err)
{
    struct walk w = {.s = s, .limits = RP_ARCHIVE_LIMITS, .err = err};
    struct loading l = {0};
    w.limits.bytes = max_bytes;
    int rc = run_walk(&w, load_member, &l);
    if (rc < 0)
        rp_archive_members_free(l.member, l.n);
    *member = rc < 0 ? NULL : l.member;
    *n = rc < 0 ? 0 : l.n;
    return rc;
}

void rp_archive_members_free(struct rp_archive_member *member, int n)
{
    for (int i = 0; i < n; i++) {
        free(member[i].name);
        free(member[i].data);
    }
    free(member);
}

/* -- writing -- */

static int add_filter(struct archive *a, const char *path, struct rp_err *err)
{
    static const struct {
        const char *ending, *option;
        int (*add)(struct archive *);
    } forms[] = {
        {".tar", NULL, archive_write_add_filter_none},
        {".tar.gz", "gzip:compression-level=9,gzip:!timestamp", archive_write_add_filter_gzip},
        {".tar.xz", "xz:compression-level=9", archive_write_add_filter_xz},
        {".tar.zst", "zstd:compression-level=19", archive_write_add_filter_zstd},
        {".tar.bz2", "bzip2:compression-level=9", archive_write_add_filter_bzip2},
        {".tar.lz4", "lz4:compression-level=9", archive_write_add_filter_lz4},
    };
    size_t n = strlen(path);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        size_t m = strlen(forms[i].ending);
        if (n <= m || strcmp(path + n - m, forms[i].ending) != 0)
            continue;
        if (forms[i].add(a) != ARCHIVE_OK || (forms[i].option && archive_write_set_options(a, forms[i].option) != ARCHIVE_OK))
            return rp_fail(err, RP_UNAVAILABLE, "cannot write '%s': %s", path, archive_error_string(a));
        return 0;
    }
    return rp_fail(err, RP_USAGE, "'%s': the ending decides the form; use .tar, .tar.gz, .tar.xz, .tar.zst, .tar.bz2 or .tar.lz4", path);
}

static la_ssize_t to_buffer(struct archive *a, void *arg, const void *data, size_t size)
{
    (void)a;
    rp_buf_add(arg, data, size);
    return (la_ssize_t)size;
}

static int add_member(struct archive *a, const struct rp_archive_member *m)
{
    struct archive_entry *e = archive_entry_new();
    archive_entry_set_pathname(e, m->name);
    archive_entry_set_size(e, (la_int64_t)m->size);
    archive_entry_set_filetype(e, AE_IFREG);
    archive_entry_set_perm(e, 0644);
    archive_entry_set_mtime(e, 0, 0);
    int bad = archive_write_header(a, e) != ARCHIVE_OK || archive_write_data(a, m->data, m->size) != (la_ssize_t)m->size;
    archive_entry_free(e);
    return bad ? -1 : 0;
}

int rp_archive_write(const char *path, const struct rp_archive_member *member, int n, struct rp_err *err)
{
    RP_BUF bytes = {0};
    struct archive *a = archive_write_new();
    archive_write_set_format_ustar(a);
    archive_write_set_bytes_in_last_block(a, 1);
    int failed = add_filter(a, path, err) < 0;
    if (!failed && archive_write_open(a, &bytes, NULL, to_buffer, NULL) != ARCHIVE_OK)
        failed = rp_fail(err, RP_IO, "cannot write '%s': %s", path, archive_error_string(a)) < 0;
    for (int i = 0; !failed && i < n; i++)
        if (add_member(a, &member[i]) < 0)
            failed = rp_fail(err, RP_IO, "cannot write member '%s' of '%s': %s", member[i].name, path, archive_error_string(a)) < 0;
    if (!failed && archive_write_close(a) != ARCHIVE_OK)
        failed = rp_fail(err, RP_IO, "cannot write '%s': %s", path, archive_error_string(a)) < 0;
    archive_write_free(a);
    return failed ? -1 : rp_write_file(path, bytes.data, bytes.size, 0666, err);
}

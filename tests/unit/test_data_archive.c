/* Archives, honest and hostile: each refusal with its reason, every format and compression, and nothing ever outside
 * the directory. */
#include "tests/unit/tap.h"

#include "base/interrupt.h"
#include "data/archive.h"
#include "data/names.h"
#include "tests/unit/data_fixture.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

static struct rp_err err;

/* ---- making archives ---- */

struct member {
    const char *name;
    int type;         /* AE_IFREG, ... ; 0 is AE_IFREG */
    const char *data; /* or the target of a link */
    size_t size;      /* of zeros, where data is NULL */
    int hard;         /* data is the target of a hard link */
    int sparse;       /* a hole in front of the last byte */
};

static la_ssize_t to_buffer(struct archive *a, void *arg, const void *data, size_t size)
{
    (void)a;
    rp_buf_add(arg, data, size);
    return (la_ssize_t)size;
}

static void add_member(struct archive *a, const struct member *m)
{
    struct archive_entry *e = archive_entry_new();
    int type = m->type ? m->type : (int)AE_IFREG;
    size_t size = type != AE_IFREG || m->hard ? 0 : m->data ? strlen(m->data) : m->size;
    archive_entry_set_pathname(e, m->name);
    archive_entry_set_filetype(e, (unsigned)type);
    archive_entry_set_perm(e, 06777);
    archive_entry_set_uid(e, 12345);
    archive_entry_set_size(e, (la_int64_t)size);
    if (type == AE_IFLNK)
        archive_entry_set_symlink(e, m->data);
    if (m->hard)
        archive_entry_set_hardlink(e, m->data);
    if (m->sparse)
        archive_entry_sparse_add_entry(e, (la_int64_t)size - 1, 1);
    if (archive_write_header(a, e) < ARCHIVE_WARN)
        printf("# %s: %s\n", m->name, archive_error_string(a));
    if (m->data && size)
        archive_write_data(a, m->data, size);
    static const char zero[65536];
    for (size_t left = m->data ? 0 : size; left; left -= left < sizeof zero ? left : sizeof zero)
        archive_write_data(a, zero, left < sizeof zero ? left : sizeof zero);
    archive_entry_free(e);
}

/* format "pax", "gnutar", "zip"...; filter "gzip" or NULL, "gzip2" for twice */
static const char *make(const char *file, const char *format, const char *filter, const struct member *m, int n)
{
    RP_BUF bytes = {0};
    struct archive *a = archive_write_new();
    archive_write_set_format_by_name(a, format);
    if (filter && archive_write_add_filter_by_name(a, strcmp(filter, "gzip2") == 0 ? "gzip" : filter) != ARCHIVE_OK)
        printf("# no filter %s\n", filter);
    if (filter && strcmp(filter, "gzip2") == 0)
        archive_write_add_filter_gzip(a);
    archive_write_set_bytes_in_last_block(a, 1);
    archive_write_open(a, &bytes, NULL, to_buffer, NULL);
    for (int i = 0; i < n; i++)
        add_member(a, &m[i]);
    archive_write_free(a);
    return put_file(file, bytes.data, bytes.size);
}

static struct rp_buf listed; /* of the last unpack() */

static int unpack(const char *path, const char *dir, const struct rp_archive_limits *limits)
{
    struct stat st;
    RP_FD fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        abort();
    struct rp_archive_source s = {.name = path, .fd = fd, .size = (uint64_t)st.st_size};
    tree_remove(dir);
    mkdir(dir, 0755);
    err = (struct rp_err){0};
    rp_buf_fini(&listed);
    return rp_archive_unpack(&s, dir, limits, &listed, &err);
}

static int same_file(const char *path, const char *text)
{
    RP_BUF b = {0};
    struct rp_err e;
    return rp_read_file(&b, path, 1 << 20, &e) == 0 && b.size == strlen(text) && memcmp(b.data, text, b.size) == 0;
}

/* ---- honest ones ---- */

TEST(every_format_and_compression)
{
    static const char *const form[][2] = {{"pax", NULL},     {"ustar", NULL},   {"gnutar", NULL},
                                          {"zip", NULL},     {"ustar", "gzip"}, {"ustar", "xz"},
                                          {"ustar", "zstd"}, {"ustar", "lz4"},  {"ustar", "bzip2"}};
    const struct member m[] = {{"./", AE_IFDIR, 0, 0, 0, 0},
                               {"./dir/", AE_IFDIR, 0, 0, 0, 0},
                               {"dir/a.tfrecord", 0, "alpha", 0, 0, 0},
                               {"implied/x/b", 0, "beta", 0, 0, 0},
                               {"empty", 0, "", 0, 0, 0},
                               {"gr\xc3\xbc\xc3\x9f", 0, "umlaut", 0, 0, 0}};
    for (size_t i = 0; i < sizeof form / sizeof *form; i++) {
        struct stat st;
        const char *path = make("honest", form[i][0], form[i][1], m, 6);
        int rc = unpack(path, scratch("out"), NULL);
        CHECK(rc == 0, "%s %s: %s", form[i][0], form[i][1] ? form[i][1] : "", err.msg);
        CHECK(same_file(scratch("out/dir/a.tfrecord"), "alpha") && same_file(scratch("out/implied/x/b"), "beta"));
        CHECK(same_file(scratch("out/empty"), "") && same_file(scratch("out/gr\xc3\xbc\xc3\x9f"), "umlaut"), "%s",
              form[i][0]);
        CHECK(stat(scratch("out/dir/a.tfrecord"), &st) == 0 && (st.st_mode & 07777) == 0644 && st.st_uid == geteuid());
    }
}

TEST(written_archives_are_readable_and_deterministic)
{
    static const char *const ending[] = {".tar", ".tar.gz", ".tar.xz", ".tar.zst", ".tar.bz2", ".tar.lz4"};
    struct rp_archive_member m[2] = {{(char[]){"a.tfrecord"}, (unsigned char *)(char[]){"first"}, 5},
                                     {(char[]){"b"}, NULL, 0}};
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++) {
        RP_BUF one = {0}, two = {0};
        char a[64], b[64];
        snprintf(a, sizeof a, "w1%s", ending[i]);
        snprintf(b, sizeof b, "w2%s", ending[i]);
        CHECK(write_archive(scratch(a), m, 2, &err) == 0, "%s", err.msg);
        CHECK(write_archive(scratch(b), m, 2, &err) == 0);
        CHECK(rp_read_file(&one, scratch(a), 1 << 20, &err) == 0 && rp_read_file(&two, scratch(b), 1 << 20, &err) == 0);
        CHECK(one.size == two.size && memcmp(one.data, two.data, one.size) == 0, "%s", ending[i]);
        CHECK(unpack(scratch(a), scratch("out"), NULL) == 0 && same_file(scratch("out/a.tfrecord"), "first"), "%s",
              err.msg);
        struct rp_archive_source s = {.name = "memory", .fd = -1, .data = one.data, .size = one.size};
        struct rp_archive_member *got;
        int n;
        CHECK(rp_archive_load(&s, 100, &got, &n, &err) == 0, "%s", err.msg);
        CHECK(n == 2 && strcmp(got[0].name, "a.tfrecord") == 0 && got[0].size == 5 &&
              memcmp(got[0].data, "first", 5) == 0);
        rp_archive_members_free(got, n);
        REFUSED(rp_archive_load(&s, 4, &got, &n, &err) < 0, err.msg);
    }
    CHECK(write_archive(scratch("w.rar"), m, 2, &err) < 0 && err.code == RP_USAGE);
}

static int count_visits(void *arg, const char *name, char type, uint64_t size)
{
    (void)size;
    *(int *)arg += type == 'f' ? 1 : type == 'd' ? 10 : 100;
    return strcmp(name, "stop") == 0;
}

TEST(listing_unpacks_nothing_and_refuses_the_same)
{
    const struct member good[] = {
        {"d", AE_IFDIR, 0, 0, 0, 0}, {"d/f", 0, "x", 0, 0, 0}, {"d/l", AE_IFLNK, "f", 0, 0, 0}};
    const struct member bad[] = {{"../f", 0, "x", 0, 0, 0}};
    int seen = 0;
    RP_FD fd = open(make("l.tar", "pax", NULL, good, 3), O_RDONLY);
    struct rp_archive_source s = {.name = "l.tar", .fd = fd, .size = 10240};
    CHECK(rp_archive_list(&s, NULL, count_visits, &seen, &err) == 0 && seen == 111, "%d, %s", seen, err.msg);
    RP_FD fd2 = open(make("b.tar", "pax", NULL, bad, 1), O_RDONLY);
    s.fd = fd2;
    REFUSED(rp_archive_list(&s, NULL, count_visits, &seen, &err) < 0, err.msg);
}

/* ---- hostile ones ---- */

static void refused(const char *path, const struct rp_archive_limits *limits)
{
    struct stat st;
    REFUSED(unpack(path, scratch("out"), limits) < 0 && err.code == RP_MALFORMED, err.msg);
    CHECK(lstat(scratch("escaped"), &st) < 0, "something was written outside");
}

TEST(names_that_are_refused)
{
    static const char *const c[] = {
        "../escaped", "a/../../escaped", "a/..", "a//b", "a/./b", "bad\xff", "bad\xc0\xaf", "bad\xed\xa0\x80", "bell\a",
        "line\nbreak", "c1\xc2\x9b", ".repro-files", "a/.reproX",
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        const struct member m = {c[i], 0, "x", 0, 0, 0};
        refused(make("name.tar", "gnutar", NULL, &m, 1), NULL);
    }
    char outside[300];
    snprintf(outside, sizeof outside, "%s", scratch("escaped"));
    const struct member absolute = {outside, 0, "x", 0, 0, 0};
    refused(make("abs.tar", "gnutar", NULL, &absolute, 1), NULL);
    char longest[RP_ARCHIVE_NAME + 2], component[300];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    for (size_t i = 50; i < sizeof longest - 1; i += 51)
        longest[i] = '/';
    REFUSED(rp_name_check(longest, &err) < 0, err.msg);
    longest[RP_ARCHIVE_NAME] = 0;
    CHECK(rp_name_check(longest, &err) == 0, "%s", err.msg);
    memset(component, 'y', sizeof component - 1);
    component[256] = 0;
    CHECK(rp_name_check(component, &err) < 0);
    CHECK(rp_name_check("", &err) < 0);
}

TEST(kinds_that_are_refused)
{
    static const struct member c[] = {
        {"dev", AE_IFCHR, 0, 0, 0, 0},
        {"blk", AE_IFBLK, 0, 0, 0, 0},
        {"pipe", AE_IFIFO, 0, 0, 0, 0},
        {"hard", 0, "other", 0, 1, 0},
        {"l", AE_IFLNK, "/etc/passwd", 0, 0, 0},
        {"l", AE_IFLNK, "../escaped", 0, 0, 0},
        {"l", AE_IFLNK, "..", 0, 0, 0},
        {"d/l", AE_IFLNK, "../../escaped", 0, 0, 0},
        {"d/l", AE_IFLNK, "x/../../..", 0, 0, 0},
        {"d/l", AE_IFLNK, "x/..", 0, 0, 0},
        {"d/l", AE_IFLNK, "bell\a", 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++)
        refused(make("kind.tar", "pax", NULL, &c[i], 1), NULL);
    const struct member fine = {"d/l", AE_IFLNK, "../d/x", 0, 0, 0};
    CHECK(unpack(make("fine.tar", "pax", NULL, &fine, 1), scratch("out"), NULL) == 0, "%s", err.msg);
}

/* Kinds that a tar cannot have: the mode of a member of a zip, in its central directory. */
TEST(kinds_of_a_zip_that_are_refused)
{
    static const unsigned modes[] = {0140644, 0150644, 0020644};
    const struct member m = {"odd", 0, "x", 0, 0, 0};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        RP_BUF zip = {0};
        const char *path = make("odd.zip", "zip", NULL, &m, 1);
        CHECK(rp_read_file(&zip, path, 1 << 20, &err) == 0, "%s", err.msg);
        char *entry = memmem(zip.data, zip.size, "PK\1\2", 4);
        if (!CHECK(entry, "no central directory"))
            return;
        entry[5] = 3; /* made by Unix */
        entry[40] = (char)modes[i];
        entry[41] = (char)(modes[i] >> 8);
        refused(put_file("odd.zip", zip.data, zip.size), NULL);
    }
}

TEST(names_that_collide)
{
    const struct member same[] = {{"a", 0, "1", 0, 0, 0}, {"a", 0, "2", 0, 0, 0}};
    const struct member folded[] = {{"dir/a", 0, "1", 0, 0, 0}, {"DIR/A", 0, "2", 0, 0, 0}};
    const struct member dots[] = {{"a", 0, "1", 0, 0, 0}, {"./a", 0, "2", 0, 0, 0}};
    const struct member below_file[] = {{"a", 0, "1", 0, 0, 0}, {"a/b", 0, "2", 0, 0, 0}};
    const struct member over_dir[] = {{"a/b", 0, "1", 0, 0, 0}, {"a", 0, "2", 0, 0, 0}};
    const struct member through[] = {
        {"d", AE_IFDIR, 0, 0, 0, 0}, {"l", AE_IFLNK, "d", 0, 0, 0}, {"l/x", 0, "2", 0, 0, 0}};
    const struct member dir_twice[] = {{"d/", AE_IFDIR, 0, 0, 0, 0}, {"d/", AE_IFDIR, 0, 0, 0, 0}};
    refused(make("c.tar", "pax", NULL, same, 2), NULL);
    refused(make("c.tar", "pax", NULL, folded, 2), NULL);
    refused(make("c.tar", "pax", NULL, dots, 2), NULL);
    refused(make("c.tar", "pax", NULL, below_file, 2), NULL);
    refused(make("c.tar", "pax", NULL, over_dir, 2), NULL);
    refused(make("c.tar", "pax", NULL, through, 3), NULL);
    refused(make("c.tar", "pax", NULL, dir_twice, 2), NULL);
    refused(make("c.zip", "zip", NULL, same, 2), NULL);
}

TEST(limits)
{
    const struct member three[] = {{"a", 0, "1", 0, 0, 0}, {"b", 0, "22", 0, 0, 0}, {"c", 0, "333", 0, 0, 0}};
    const struct member bomb = {"zeros", 0, NULL, 20 << 20, 0, 0};
    const struct member hole = {"hole", 0, NULL, 20 << 20, 0, 1};
    struct rp_archive_limits l = RP_ARCHIVE_LIMITS;
    l.entries = 2;
    refused(make("e.tar", "pax", NULL, three, 3), &l);
    l = (struct rp_archive_limits)RP_ARCHIVE_LIMITS;
    l.bytes = 5;
    refused(make("b.tar", "pax", NULL, three, 3), &l);
    refused(make("z.tar.zst", "pax", "zstd", &bomb, 1), NULL);
    refused(make("z.tar.xz", "pax", "xz", &bomb, 1), NULL);
    refused(make("z.zip", "zip", NULL, &bomb, 1), NULL);
    refused(make("h.tar", "pax", NULL, &hole, 1), NULL);
    refused(make("t.tar.gz.gz", "pax", "gzip2", three, 3), NULL);
}

/* Deep paths of ever new directories: few members, many names. */
TEST(names_are_bounded_in_memory)
{
    struct rp_path_set names = {0};
    char path[RP_ARCHIVE_NAME + 1];
    int n = 0, rc = 0;
    while (rc == 0 && n < 10000) {
        size_t at = (size_t)snprintf(path, sizeof path, "%d", n++);
        while (at + 2 < sizeof path) {
            path[at++] = '/';
            path[at++] = 'd';
        }
        path[at] = 0;
        rc = rp_path_set_add(&names, path, 'f', &err);
    }
    REFUSED(rc < 0 && n < 1000, err.msg);
    rp_path_set_fini(&names);
}

/* Formats that are archives too, but not ours. */
TEST(formats_that_are_refused)
{
    static const char *const format[] = {"7zip", "cpio", "ar"};
    const struct member m = {"a.tfrecord", 0, "data", 0, 0, 0};
    for (size_t i = 0; i < sizeof format / sizeof *format; i++) {
        const char *path = make("foreign", format[i], NULL, &m, 1);
        REFUSED(unpack(path, scratch("out"), NULL) < 0 && err.code == RP_MALFORMED, err.msg);
    }
    refused(make("disc.iso", "iso9660", NULL, &m, 1), NULL);
    static const char rar[] = "Rar!\x1a\x07\x01\x00\x33\x92\xb5\xe5\x0a\x01\x05\x06\x00\x05\x01\x01\x80\x80\x00";
    REFUSED(unpack(put_file("x.rar", rar, sizeof rar - 1), scratch("out"), NULL) < 0, err.msg);
}

TEST(encrypted_zip_is_refused)
{
    static const char *const method[] = {"zipcrypt", "aes128", "aes256"};
    const struct member m[] = {{"d/", AE_IFDIR, 0, 0, 0, 0}, {"d/secret", 0, "data", 0, 0, 0}};
    for (size_t i = 0; i < sizeof method / sizeof *method; i++) {
        RP_BUF bytes = {0};
        struct archive *a = archive_write_new();
        archive_write_set_format_zip(a);
        CHECK(archive_write_set_format_option(a, "zip", "encryption", method[i]) == ARCHIVE_OK &&
                  archive_write_set_passphrase(a, "password") == ARCHIVE_OK,
              "%s", archive_error_string(a));
        archive_write_set_bytes_in_last_block(a, 1);
        archive_write_open(a, &bytes, NULL, to_buffer, NULL);
        add_member(a, &m[0]);
        add_member(a, &m[1]);
        archive_write_free(a);
        refused(put_file("locked.zip", bytes.data, bytes.size), NULL);
    }
}

/* In a process of its own: the signal counts for good. */
TEST(an_interrupt_ends_unpacking)
{
    const struct member m = {"a.tfrecord", 0, "data", 0, 0, 0};
    const char *path = make("fine.tar", "pax", NULL, &m, 1), *dir = scratch("out");
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        rp_interrupt_catch();
        raise(SIGTERM);
        int stopped = unpack(path, dir, NULL) < 0 && err.code == RP_INTERRUPTED;
        rp_interrupt_settle();
        _exit(stopped && unpack(path, dir, NULL) == 0 ? 0 : 1);
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x",
          (unsigned)status);
}

TEST(other_files_are_refused)
{
    const struct member m = {"a", 0, "0123456789abcdef0123456789abcdef", 0, 0, 0};
    CHECK(unpack(put_file("text", "hello\n", 6), scratch("out"), NULL) < 0 && err.code == RP_MALFORMED &&
              strstr(err.msg, "not a"),
          "%s", err.msg);
    CHECK(unpack(put_file("nil", "", 0), scratch("out"), NULL) < 0 && err.code == RP_MALFORMED, "%s", err.msg);
    RP_BUF b = {0};
    CHECK(rp_read_file(&b, make("cut.tar.zst", "pax", "zstd", &m, 1), 1 << 20, &err) == 0);
    int missed = 0;
    for (size_t n = 1; n < b.size; n += 7)
        missed += unpack(put_file("cut", b.data, n), scratch("out"), NULL) == 0;
    CHECK(missed == 0, "%d truncated archives unpacked", missed);
}

TEST(a_directory_that_cannot_be_entered_is_io)
{
    const struct member m = {"a", 0, "x", 0, 0, 0};
    const char *path = make("ok.tar", "pax", NULL, &m, 1);
    RP_FD fd = open(path, O_RDONLY);
    RP_BUF list = {0};
    struct rp_archive_source s = {.name = path, .fd = fd, .size = 10240};
    CHECK(rp_archive_unpack(&s, scratch("nowhere"), NULL, &list, &err) < 0 && err.code == RP_IO, "%s", err.msg);
}

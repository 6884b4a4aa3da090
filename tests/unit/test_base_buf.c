/* Buffers, whole files, hex and base64. */
#include "base/buf.h"
#include "tests/unit/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Files in dir, hidden ones too. */
static int count_files(const char *dir)
{
    DIR *d = opendir(dir);
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    if (d)
        closedir(d);
    return n;
}

/* What was closed to others stays so, and no link leads where nobody meant. */
TEST(overwriting_opens_nothing)
{
    const char *dir = scratch_new();
    struct rp_err err;
    struct stat st;
    RP_FREE char *file = rp_asprintf("%s/file", dir), *link = rp_asprintf("%s/link", dir),
                 *none = rp_asprintf("%s/none", dir);
    CHECK(rp_write_file(file, "1", 1, 0644, &err) == 0 && chmod(file, 0600) == 0, "%s", err.msg);
    CHECK(rp_write_file(file, "2", 1, 0644, &err) == 0 && stat(file, &st) == 0 && (st.st_mode & 0777) == 0600,
          "mode %o", st.st_mode);
    CHECK(symlink(none, link) == 0 && rp_write_file(link, "3", 1, 0644, &err) < 0 && strstr(err.msg, "symbolic link"),
          "a dangling link");
    CHECK(lstat(link, &st) == 0 && S_ISLNK(st.st_mode) && access(none, F_OK) < 0,
          "the link is gone, or what it names is there");
    CHECK(unlink(link) == 0 && symlink(file, link) == 0 && rp_write_file(link, "4", 1, 0644, &err) == 0, "%s", err.msg);
    if (geteuid() == 0) {
        CHECK(chmod(dir, 01777) == 0 && lchown(link, 65534, 65534) == 0, "no other owner");
        CHECK(rp_write_file(link, "5", 1, 0644, &err) < 0 && strstr(err.msg, "another user"),
              "somebody's link in a shared directory");
    }
}

TEST(buffers_grow)
{
    RP_BUF b = {0};
    for (int i = 0; i < 1000; i++)
        rp_buf_printf(&b, "%d,", i);
    CHECK(b.size == 3890 && b.data[b.size] == 0, "%zu bytes", b.size);
    rp_buf_add(&b, "a\0b", 3);
    CHECK(b.size == 3893 && memcmp(b.data + 3890, "a\0b", 4) == 0, "NUL bytes are bytes");
    char *taken = rp_buf_take(&b);
    CHECK(b.size == 0 && b.data == NULL && strncmp(taken, "0,1,2,", 6) == 0, "taken");
    free(taken);
    CHECK(strcmp(rp_buf_text(&b), "") == 0 && rp_buf_is(&b, NULL, 0) && !rp_buf_is(&b, "x", 1),
          "an empty buffer has an empty text");
    rp_buf_add(&b, "a\0b", 3);
    CHECK(rp_buf_is(&b, "a\0b", 3) && !rp_buf_is(&b, "a\0c", 3) && !rp_buf_is(&b, "a\0b", 2), "NUL bytes count");
    rp_buf_fini(&b);
    taken = rp_buf_take(&b);
    CHECK(strcmp(taken, "") == 0, "an empty buffer gives an empty text");
    free(taken);
}

TEST(hex)
{
    char text[9];
    unsigned char back[4];
    rp_hex(text, "\x00\x7f\x80\xff", 4);
    CHECK(strcmp(text, "007f80ff") == 0, "'%s'", text);
    CHECK(rp_unhex(back, 4, "007F80fF") == 0 && memcmp(back, "\x00\x7f\x80\xff", 4) == 0, "back, in either case");
    CHECK(rp_unhex(back, 4, "007f80f") < 0 && rp_unhex(back, 4, "007f80ff0") < 0, "wrong length");
    CHECK(rp_unhex(back, 4, "") < 0 && rp_unhex(back, 4, "007f80fg") < 0 && rp_unhex(back, 4, "0x7f80ff") < 0,
          "not hex");
}

TEST(base64)
{
    static const struct {
        const char *text, *code; /* RFC 4648 section 10 */
    } known[] = {{"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"fooba", "Zm9vYmE="},
                 {"foobar", "Zm9vYmFy"}};
    static const char *const bad[] = {
        "Z", "Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "Z===", "====", "Zg==Zg==", "Zm9v\n", " Zm9v", "Zm-_", "Zm=v"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        RP_BUF code = {0}, text = {0};
        rp_base64(&code, known[i].text, strlen(known[i].text));
        CHECK(strcmp(code.data, known[i].code) == 0, "'%s' gives '%s'", known[i].text, code.data);
        CHECK(rp_unbase64(&text, code.data, code.size) == 0 && strcmp(text.data, known[i].text) == 0, "'%s' and back",
              code.data);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        RP_BUF text = {0};
        CHECK(rp_unbase64(&text, bad[i], strlen(bad[i])) < 0, "'%s' was accepted", bad[i]);
    }
}

TEST(read_within_a_limit)
{
    RP_BUF b = {0};
    struct rp_err e;
    const char *dir = scratch_new();
    RP_FREE char *path = rp_asprintf("%s/f", dir), *fifo = rp_asprintf("%s/fifo", dir);
    CHECK(rp_write_file(path, "0123456789", 10, 0600, &e) == 0, "%s", e.msg);
    CHECK(rp_read_file(&b, path, 10, &e) == 0 && b.size == 10, "exactly the limit");
    CHECK(rp_read_file(&b, path, 9, &e) < 0 && e.code == RP_MALFORMED && strstr(e.msg, path), "one more: %s", e.msg);
    REFUSED(rp_read_file(&b, dir, 9, &e) < 0 && e.code == RP_IO, e.msg);
    CHECK(mkfifo(fifo, 0600) == 0, "mkfifo: %s", strerror(errno));
    CHECK(rp_read_file(&b, fifo, 9, &e) < 0 && e.code == RP_IO, "a FIFO without a writer must not hang");
    CHECK(rp_read_file(&b, "/nonexistent/x", 9, &e) < 0 && e.code == RP_IO && e.sys == ENOENT, "%s", e.msg);
    RP_BUF proc = {0};
    CHECK(rp_read_file(&proc, "/proc/self/status", 1 << 20, &e) == 0 && proc.size > 100,
          "files of size 0 in /proc are read to the end");
}

TEST(write_is_all_or_nothing)
{
    struct rp_err e;
    const char *dir = scratch_new();
    struct stat st;
    RP_FREE char *path = rp_asprintf("%s/f", dir), *link = rp_asprintf("%s/l", dir),
                 *below = rp_asprintf("%s/f/x", dir);
    RP_FREE char *fifo = rp_asprintf("%s/fifo", dir);
    CHECK(rp_write_file(path, "old", 3, 0640, &e) == 0, "%s", e.msg);
    mode_t mask = umask(022);
    CHECK(rp_write_file(path, "new!", 4, 0666, &e) == 0 && stat(path, &st) == 0, "%s", e.msg);
    umask(mask);
    CHECK(st.st_size == 4 && (st.st_mode & 0777) == 0640, "size %ld mode %o", (long)st.st_size,
          (unsigned)st.st_mode & 0777);
    CHECK(symlink("f", link) == 0 && rp_write_file(link, "through", 7, 0600, &e) == 0, "%s", e.msg);
    CHECK(lstat(link, &st) == 0 && S_ISLNK(st.st_mode) && stat(path, &st) == 0 && st.st_size == 7,
          "a link stays a link");
    CHECK(rp_write_file(dir, "x", 1, 0600, &e) < 0 && e.code == RP_IO && strstr(e.msg, "directory"), "%s", e.msg);
    CHECK(rp_write_file(below, "x", 1, 0600, &e) < 0 && e.code == RP_IO, "%s", e.msg);
    CHECK(mkfifo(fifo, 0600) == 0 && rp_write_file(fifo, "x", 1, 0600, &e) < 0 && e.code == RP_IO,
          "a FIFO without a reader must not hang");
    CHECK(unlink(fifo) == 0 && count_files(dir) == 2, "%d files: a temporary one was left", count_files(dir));
    if (access("/dev/full", W_OK) == 0) {
        CHECK(rp_write_file("/dev/full", "x", 1, 0600, &e) < 0 && e.sys == ENOSPC, "%s", e.msg);
        CHECK(stat("/dev/full", &st) == 0 && S_ISCHR(st.st_mode), "a device was replaced by a file");
    }
}

TEST(a_new_file_replaces_nothing)
{
    struct rp_err e;
    const char *dir = scratch_new();
    struct stat st;
    RP_BUF text = {0};
    RP_FREE char *path = rp_asprintf("%s/f", dir), *link = rp_asprintf("%s/l", dir),
                 *nowhere = rp_asprintf("%s/n", dir);
    CHECK(rp_write_new_file(path, "first", 5, 0640, &e) == 0 && stat(path, &st) == 0 && (st.st_mode & 0777) == 0640,
          "%s", e.msg);
    CHECK(rp_write_new_file(path, "second", 6, 0640, &e) < 0 && e.sys == EEXIST && strstr(e.msg, path), "%s", e.msg);
    CHECK(rp_read_file(&text, path, 100, &e) == 0 && strcmp(text.data, "first") == 0, "it says %s", text.data);
    CHECK(symlink(nowhere, link) == 0 && rp_write_new_file(link, "x", 1, 0640, &e) < 0 && e.sys == EEXIST,
          "a link to nowhere: %s", e.msg);
    CHECK(access(nowhere, F_OK) < 0, "the link was followed");
    CHECK(rp_write_new_file(dir, "x", 1, 0640, &e) < 0 && e.sys == EEXIST, "%s", e.msg);
    CHECK(count_files(dir) == 2, "%d files: a temporary one was left", count_files(dir));
}

TEST(folders_of_paths)
{
    static const struct {
        const char *path, *folder, *next_to; /* next_to: of "x" */
    } c[] = {{"a", ".", "x"},        {"a/b", "a", "a/x"},    {"/a", "/", "/x"},
             {"/a/b", "/a", "/a/x"}, {"../b", "..", "../x"}, {"a/b/", "a/b", "a/b/x"}};
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        RP_FREE char *folder = rp_folder_of(c[i].path), *next_to = rp_path_next_to(c[i].path, "x"),
                     *absolute = rp_path_next_to(c[i].path, "/y");
        CHECK_STR(folder, c[i].folder);
        CHECK_STR(next_to, c[i].next_to);
        CHECK_STR(absolute, "/y");
    }
}

TEST(make_directories)
{
    struct rp_err e;
    const char *dir = scratch_new();
    RP_FREE char *deep = rp_asprintf("%s/a//b/c/", dir), *file = rp_asprintf("%s/f", dir),
                 *below = rp_asprintf("%s/f/x", dir);
    CHECK(rp_mkdirs(deep, 0755, &e) == 0 && access(deep, F_OK) == 0, "%s", e.msg);
    CHECK(rp_mkdirs(deep, 0755, &e) == 0, "a second time: %s", e.msg);
    CHECK(rp_write_file(file, "", 0, 0600, &e) == 0, "%s", e.msg);
    REFUSED(rp_mkdirs(file, 0755, &e) < 0, e.msg);
    CHECK(rp_mkdirs(below, 0755, &e) < 0 && e.code == RP_IO, "%s", e.msg);
}

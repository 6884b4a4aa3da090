/* Writing archives whose bytes follow from their members alone. */
#include "data/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <string.h>

static la_ssize_t on_write(struct archive *a, void *arg, const void *data, size_t size)
{
    (void)a;
    rp_buf_add(arg, data, size);
    return (la_ssize_t)size;
}

/* Settings are spelled out, so that a library's default that changes does not change the bytes. */
static const struct {
    const char *ending;
    int (*add)(struct archive *);
    const char *options;
} compressions[] = {
    {".tar", NULL, NULL},
    {".tar.gz", archive_write_add_filter_gzip, "gzip:compression-level=9,gzip:!timestamp"},
    {".tar.xz", archive_write_add_filter_xz, "xz:compression-level=9,xz:threads=1"},
    {".tar.zst", archive_write_add_filter_zstd, "zstd:compression-level=19"},
    {".tar.bz2", archive_write_add_filter_bzip2, "bzip2:compression-level=9"},
    {".tar.lz4", archive_write_add_filter_lz4, "lz4:compression-level=9"},
};

static int choose(struct archive *a, const char *path, struct rp_err *err)
{
    size_t n = strlen(path);
    for (size_t i = 0; i < sizeof compressions / sizeof *compressions; i++) {
        size_t m = strlen(compressions[i].ending);
        if (n <= m || strcmp(path + n - m, compressions[i].ending) != 0)
            continue;
        if (!compressions[i].add)
            return 0;
        if (compressions[i].add(a) != ARCHIVE_OK ||
            archive_write_set_options(a, compressions[i].options) != ARCHIVE_OK)
            return rp_fail(err, RP_UNAVAILABLE, "cannot compress '%s': %s", path, archive_error_string(a));
        return 0;
    }
    return rp_fail(err, RP_USAGE,
                   "'%s': expected a name that ends in .tar, .tar.gz, .tar.xz, .tar.zst, .tar.bz2 or .tar.lz4", path);
}

static int add_member(struct archive *a, const struct rp_archive_member *m)
{
    struct archive_entry *e = archive_entry_new();
    if (!e)
        return -1;
    archive_entry_set_pathname(e, m->name);
    archive_entry_set_filetype(e, AE_IFREG);
    archive_entry_set_perm(e, 0644);
    archive_entry_set_size(e, (la_int64_t)m->size);
    archive_entry_set_mtime(e, 0, 0);
    int failed = archive_write_header(a, e) != ARCHIVE_OK ||
                 (m->size && archive_write_data(a, m->data, m->size) != (la_ssize_t)m->size);
    archive_entry_free(e);
    return failed ? -1 : 0;
}

int rp_archive_make(struct rp_buf *out, const char *path, const struct rp_archive_member *member, int n,
                    struct rp_err *err)
{
    struct archive *a = archive_write_new();
    if (!a)
        return rp_fail(err, RP_UNAVAILABLE, "out of memory");
    archive_write_set_format_ustar(a);
    archive_write_set_bytes_in_last_block(a, 1);
    int failed = choose(a, path, err) < 0, broken = 0;
    if (!failed) {
        broken = archive_write_open(a, out, NULL, on_write, NULL) != ARCHIVE_OK;
        for (int i = 0; i < n && !broken; i++)
            broken = add_member(a, &member[i]) < 0;
        broken = broken || archive_write_close(a) != ARCHIVE_OK;
    }
    if (broken)
        failed = rp_fail(err, RP_UNAVAILABLE, "cannot make '%s': %s", path, archive_error_string(a)) < 0;
    archive_write_free(a);
    return failed ? -1 : 0;
}

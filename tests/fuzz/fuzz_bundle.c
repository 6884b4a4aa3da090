/* Any bytes as a bundle, and as the tar inside one: refused with one line, or they are the one spelling of the members
 * read. */
#include "bundle/bundle.h"
#include "bundle/source.h"
#include "bundle/pack.h"
#include "tests/fuzz/fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

/* What was left out comes again, and is what the digests say. */
static int count(void *to, const char *data, size_t size, struct rp_err *err)
{
    (void)data, (void)err;
    *(size_t *)to += size;
    return 0;
}

/* A bundle read with its large members and without them is the same, or both are refused. */
static void as_file(int fd)
{
    struct rp_bundle b, lean;
    struct rp_err err = {0};
    char one[RP_SHA256_HEX], two[RP_SHA256_HEX], path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int refused = rp_bundle_open(&b, path, &err) < 0, failed = rp_bundle_scan(&lean, fd, &err) < 0;
    if (failed != refused)
        abort();
    if (failed)
        must_be_refusal(&err);
    for (int i = 0; !failed && i < lean.n; i++) {
        size_t again = 0;
        rp_member_sha256(one, &lean.member[i]);
        rp_member_sha256(two, &b.member[i]);
        if (strcmp(one, two) != 0 || rp_bundle_again(fd, &lean.member[i], count, &again, &err) < 0 ||
            again != b.member[i].bytes.size)
            abort();
    }
    rp_bundle_fini(&lean);
    rp_bundle_fini(&b);
}

static int file_of(const void *data, size_t size)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || rp_write_all(fd, data, size) < 0)
        abort();
    return fd;
}

static void as_tar(const uint8_t *data, size_t size)
{
    RP_BUF again = {0}, packed = {0};
    char name[RP_TAR_NAME_MAX + 1];
    const char *piece;
    size_t n;
    int more;
    struct rp_err err = {0};
    struct rp_bundle b = {0};
    if (rp_zst_pack(&packed, data, size, &err) < 0)
        abort();
    int fd = file_of(packed.data, packed.size);
    struct rp_unpack *u = rp_unpack_file(fd, size + 1, &err);
    if (!u)
        abort();
    while ((more = rp_tar_next(u, name, &n, &err)) > 0) {
        RP_BUF content = {0};
        while ((more = rp_tar_piece(u, &piece, &n, &err)) > 0)
            rp_buf_add(&content, piece, n);
        if (more < 0)
            break;
        rp_tar_add(&again, name, content.data, content.size);
        if (rp_bundle_add(&b, name, content.data, content.size, &err) < 0)
            must_be_refusal(&err);
    }
    rp_unpack_free(u);
    close(fd);
    if (more < 0) {
        must_be_refusal(&err);
    } else {
        rp_tar_end(&again);
        if (again.size != size || memcmp(again.data, data, size) != 0)
            abort();
    }
    RP_BUF sums = {0};
    rp_bundle_sums(&sums, &b);
    rp_bundle_fini(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = file_of(data, size);
    as_file(fd);
    close(fd);
    as_tar(data, size);
    return 0;
}

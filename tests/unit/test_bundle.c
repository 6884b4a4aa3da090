/* The container: the same bytes every time, and no change of a byte that goes unnoticed. */
#include "tests/unit/bundle_fixture.h"

#include "bundle/pack.h"

#include <fcntl.h>
#include <zstd.h>

/* The file of an honest bundle and its members. */
static void honest(struct rp_buf *file, struct rp_bundle *b)
{
    struct rp_err err;
    RP_FREE char *path = fx_path("honest");
    FX(x);
    fx_seal(&x, "signer", "honest");
    CHECK(rp_read_file(file, path, 1 << 20, &err) == 0, "%s", err.msg);
    CHECK(fx_open(b, file->data, file->size, &err) == 0, "%s", err.msg);
}

static void tar_of(struct rp_buf *tar, const struct rp_bundle *b)
{
    for (int i = 0; i < b->n; i++)
        rp_tar_add(tar, b->member[i].name, b->member[i].bytes.data, b->member[i].bytes.size);
    rp_tar_end(tar);
}

static int same_members(const struct rp_bundle *a, const struct rp_bundle *b)
{
    if (a->n != b->n)
        return 0;
    for (int i = 0; i < a->n; i++)
        if (strcmp(a->member[i].name, b->member[i].name) != 0 || a->member[i].bytes.size != b->member[i].bytes.size ||
            memcmp(a->member[i].bytes.data, b->member[i].bytes.data, a->member[i].bytes.size) != 0)
            return 0;
    return 1;
}

TEST(sealing_twice_gives_the_same_bytes)
{
    struct rp_err err;
    RP_BUF a = {0}, b = {0};
    RP_FREE char *pa = fx_path("a"), *pb = fx_path("b");
    struct stat st;
    FX(x);
    fx_seal(&x, "signer", "a");
    fx_seal(&x, "signer", "b");
    CHECK(rp_read_file(&a, pa, 1 << 20, &err) == 0 && rp_read_file(&b, pb, 1 << 20, &err) == 0, "%s", err.msg);
    CHECK(a.size == b.size && memcmp(a.data, b.data, a.size) == 0, "two seals of one run differ");
    CHECK(stat(pa, &st) == 0 && (st.st_mode & 0777) == 0644, "mode %o", st.st_mode);
}

TEST(members_come_out_in_their_fixed_order_whatever_order_they_went_in)
{
    static const char *const in[] = {"SHA256SUMS", "steps/rank10.jsonl", "env/node1.after.json", "steps/rank2.jsonl",
                                     "run.json", "env/node1.before.json", "steps/rank0.jsonl", "env/node0.after.json",
                                     "env/node0.before.json",
                                     "env/node0.hwloc.xml"};
    static const char *const out[] = {"run.json", "env/node0.before.json", "env/node1.before.json",
                                      "env/node0.after.json", "env/node1.after.json", "env/node0.hwloc.xml",
                                      "steps/rank0.jsonl", "steps/rank2.jsonl", "steps/rank10.jsonl", "SHA256SUMS"};
    static const char *const refused[] = {"steps/rank01.jsonl", "steps/rank.jsonl", "steps/rank99999.jsonl",
                                          "steps/rank-1.jsonl", "/run.json", "../run.json", "run.json/", "./run.json",
                                          "env/node0x.before.json", "", "RUN.JSON", "report.html"};
    struct rp_bundle b = {0};
    struct rp_err err;
    for (size_t i = 0; i < sizeof in / sizeof *in; i++)
        fx_add(&b, in[i], "x", 1);
    for (size_t i = 0; i < sizeof out / sizeof *out; i++)
        CHECK_STR(b.member[i].name, out[i]);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        CHECK(rp_bundle_add(&b, refused[i], "x", 1, &err) < 0 && err.code == RP_MALFORMED, "'%s' was taken",
              refused[i]);
    CHECK(rp_bundle_add(&b, "run.json", "y", 1, &err) < 0 && err.code == RP_MALFORMED, "a second run.json");
    rp_bundle_fini(&b);
}

/* Every byte of the file, in one of three ways: refused, or every member is what it was. */
TEST(no_byte_of_the_file_changes_unnoticed)
{
    static const unsigned char masks[] = {0x01, 0x80, 0xff};
    RP_BUF file = {0};
    struct rp_bundle good, bent;
    struct rp_err err;
    int harmless = 0, tried = 0;
    honest(&file, &good);
    for (size_t i = 0; i < file.size; i++)
        for (size_t m = 0; m < sizeof masks; m++) {
            if (m != i % sizeof masks && !tap_long())
                continue;
            tried++;
            file.data[i] = (char)(file.data[i] ^ masks[m]);
            if (fx_open(&bent, file.data, file.size, &err) == 0) {
                CHECK(same_members(&good, &bent), "byte %zu ^ %02x changed a member", i, masks[m]);
                rp_bundle_fini(&bent);
                harmless++;
            } else {
                CHECK(err.code == RP_MALFORMED, "byte %zu: %s", i, err.msg);
            }
            file.data[i] = (char)(file.data[i] ^ masks[m]);
        }
    CHECK(harmless * 1000 < tried, "%d of %d changes of the zstd frame had no effect", harmless, tried);
    rp_bundle_fini(&good);
}

TEST(no_truncation_passes)
{
    RP_BUF file = {0};
    struct rp_bundle good, bent;
    struct rp_err err;
    honest(&file, &good);
    for (size_t n = 0; n < file.size; n++) {
        int rc = fx_open(&bent, file.data, n, &err);
        CHECK(rc < 0 && err.code == RP_MALFORMED, "%zu of %zu bytes were enough", n, file.size);
        if (rc == 0)
            rp_bundle_fini(&bent);
    }
    rp_bundle_fini(&good);
}

/* In pieces of `flush` bytes, each at least a block of its own; 0: as large as they can be. */
static void frame_of(struct rp_buf *out, const struct rp_buf *tar, int window_log, int level, size_t flush)
{
    size_t bound = ZSTD_compressBound(tar->size) + 4 * tar->size;
    RP_FREE char *bytes = rp_alloc(bound);
    ZSTD_CCtx *c = ZSTD_createCCtx();
    ZSTD_outBuffer to = {bytes, bound, 0};
    ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
    ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, level);
    ZSTD_CCtx_setParameter(c, ZSTD_c_windowLog, window_log);
    ZSTD_CCtx_setPledgedSrcSize(c, tar->size);
    for (size_t at = 0, n; at < tar->size; at += n) {
        n = flush && flush < tar->size - at ? flush : tar->size - at;
        ZSTD_inBuffer in = {tar->data + at, n, 0};
        size_t left = ZSTD_compressStream2(c, &to, &in, at + n == tar->size ? ZSTD_e_end : ZSTD_e_flush);
        CHECK(left == 0 && in.pos == n, "%s", ZSTD_getErrorName(left));
    }
    ZSTD_freeCCtx(c);
    rp_buf_add(out, bytes, to.pos);
}

/* Is it part of a header or padding? *member: of which. */
static int is_frame_of_member(const struct rp_bundle *b, size_t at, size_t *member)
{
    size_t begin = 0;
    for (int i = 0; i < b->n; i++) {
        size_t size = b->member[i].bytes.size, end = begin + 512 + (size + 511) / 512 * 512;
        *member = (size_t)i;
        if (at < end)
            return at < begin + 512 || at >= begin + 512 + size;
        begin = end;
    }
    return 1;
}

/* Bytes of the tar inside, repacked by somebody who knows zstd: those of headers and padding are refused, all of the
 * first member and every fourth of the others, another fourth in each; those of contents change that content and
 * nothing else. What is signed of a content is in test_dsse.c and test_attacks_*.c. */
TEST(no_byte_of_the_tar_changes_unnoticed)
{
    RP_BUF file = {0}, tar = {0};
    struct rp_bundle good;
    struct rp_err err;
    honest(&file, &good);
    tar_of(&tar, &good);
    for (size_t i = 0; i < tar.size; i++) {
        struct rp_bundle bent;
        RP_BUF packed = {0};
        size_t member = 0;
        int frame = is_frame_of_member(&good, i, &member);
        if (frame ? member && (i + member) % 4 && !tap_long() : i % 61)
            continue;
        tar.data[i] ^= 0x20; /* turns letters into letters, so that much of it stays plausible */
        frame_of(&packed, &tar, 17, 1, 0);
        int refused = fx_open(&bent, packed.data, packed.size, &err) < 0;
        CHECK(refused == frame, "byte %zu of the tar: %s", i, refused ? err.msg : "accepted");
        CHECK(refused || (bent.n == good.n && !same_members(&good, &bent)), "byte %zu of the tar was ignored", i);
        tar.data[i] ^= 0x20;
        rp_bundle_fini(&bent);
    }
    rp_bundle_fini(&good);
}

TEST(more_members_than_the_limit_are_refused)
{
    struct rp_bundle b = {0};
    struct rp_err err;
    char name[64];
    int rc = 0, i = 0;
    for (; i < 9999 && rc == 0; i++) {
        snprintf(name, sizeof name, "steps/rank%d.jsonl", i);
        rc = rp_bundle_add(&b, name, "", 0, &err);
    }
    CHECK(i == RP_BUNDLE_MEMBERS_MAX + 1 && err.code == RP_MALFORMED, "%d members: %s", i, err.msg);
    size_t size;
    RP_FREE char *limit = rp_asprintf("-lt %d ]; do", RP_BUNDLE_MEMBERS_MAX);
    const char *script = rp_bundle_script(&size);
    CHECK(memmem(script, size, limit, strlen(limit)), "verify.sh has another limit");
    rp_bundle_fini(&b);
}

/* 512 MiB and a byte, of which no page is touched. */
TEST(a_bundle_that_is_too_large_to_be_read_is_not_packed)
{
    const size_t most = 256 << 20;
    struct rp_bundle b = {0};
    struct rp_err err = {0};
    RP_BUF file = {0};
    char *zeros = mmap(NULL, most, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (int i = 0; i < 3; i++) {
        fx_add(&b, RP_OF_RANK(i, ".jsonl"), "", 0);
        rp_buf_fini(&b.member[i].bytes);
        b.member[i].bytes = (struct rp_buf){.data = zeros, .size = i < 2 ? most : 1};
    }
    CHECK(rp_bundle_pack(&b, &file, &err) < 0 && err.code == RP_UNAVAILABLE && !file.size, "%s", err.msg);
    for (int i = 0; i < 3; i++)
        b.member[i].bytes = (struct rp_buf){0};
    rp_bundle_fini(&b);
    munmap(zeros, most);
}

/* What is not kept is read again, and then has to be what it was. */
static int count_piece(void *to, const char *data, size_t size, struct rp_err *err)
{
    (void)data, (void)err;
    *(size_t *)to += size;
    return 0;
}

TEST(a_member_that_changes_while_it_is_verified_is_noticed)
{
    static const char name[] = "env/node0.hwloc.xml";
    const size_t size = 3 << 20;
    RP_FREE char *path = fx_path("changing"), *bytes = rp_alloc(size);
    for (int changed = 0; changed < 2; changed++) {
        struct rp_err err = {0};
        struct rp_bundle b, scanned;
        FX_KEY *key = fx_key("signer");
        RP_BUF first = {0}, second = {0};
        size_t seen = 0;
        FX(x);
        fx_members(&b, &x);
        fx_add(&b, name, bytes, size);
        CHECK(rp_bundle_seal(&b, key, &first, &err) == 0, "%s", err.msg);
        ((struct rp_buf *)&rp_bundle_find(&b, name)->bytes)->data[size / 2] = 1;
        CHECK(rp_bundle_pack(&b, &second, &err) == 0 && rp_write_file(path, first.data, first.size, 0600, &err) == 0,
              "%s", err.msg);
        RP_FD fd = open(path, O_RDWR | O_CLOEXEC);
        CHECK(rp_bundle_scan(&scanned, fd, &err) == 0 && rp_bundle_find(&scanned, name)->left_out, "%s", err.msg);
        if (changed)
            CHECK(ftruncate(fd, 0) == 0 && pwrite(fd, second.data, second.size, 0) == (ssize_t)second.size,
                  "not written");
        int failed = rp_bundle_again(fd, rp_bundle_find(&scanned, name), count_piece, &seen, &err) < 0;
        CHECK(failed == changed && seen == size && (!failed || err.code == RP_MISMATCH), "%zu bytes: %s", seen,
              err.msg);
        rp_bundle_fini(&scanned);
        rp_bundle_fini(&b);
    }
}

/* ---- hostile frames ---- */

static void frame_refused(const void *data, size_t size)
{
    struct rp_bundle b;
    struct rp_err err;
    CHECK(fx_open(&b, data, size, &err) < 0 && err.code == RP_MALFORMED, "%s", err.msg);
    rp_bundle_fini(&b);
}

static void repack(struct rp_buf *out, const struct rp_buf *tar, int size)
{
    size_t bound = ZSTD_compressBound(tar->size);
    RP_FREE char *bytes = rp_alloc(bound);
    ZSTD_CCtx *c = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
    ZSTD_CCtx_setParameter(c, ZSTD_c_contentSizeFlag, size);
    size_t n = ZSTD_compress2(c, bytes, bound, tar->data, tar->size);
    ZSTD_freeCCtx(c);
    rp_buf_add(out, bytes, n);
}

/* What else may be wrong with a frame is in test_attacks_form.c and test_bombs.c. */
TEST(a_frame_of_another_level_is_read_and_one_without_its_size_is_not)
{
    RP_BUF file = {0}, tar = {0}, other = {0}, unsized = {0};
    struct rp_bundle good, b;
    struct rp_err err;
    honest(&file, &good);
    tar_of(&tar, &good);
    repack(&other, &tar, 1);
    CHECK(fx_open(&b, other.data, other.size, &err) == 0 && same_members(&good, &b), "%s", err.msg);
    rp_bundle_fini(&b);
    repack(&unsized, &tar, 0);
    frame_refused(unsized.data, unsized.size);
    rp_bundle_fini(&good);
}

/* ---- honest frames of every kind ---- */

/* Noise that comes back after `distance` bytes, with a byte changed now and then: matches as far back as a window
 * reaches. */
static void far_matches(struct rp_buf *tar, size_t size, size_t distance)
{
    RP_FREE char *data = rp_alloc(size);
    uint64_t state = distance;
    for (size_t i = 0; i < size; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        data[i] = i < distance || state >> 52 == 0 ? (char)(state >> 33) : data[i - distance];
    }
    rp_tar_add(tar, "steps/rank0.jsonl", data, size);
    rp_tar_end(tar);
}

static int comes_out(struct rp_unpack *u, const struct rp_buf *tar)
{
    struct rp_err err;
    char name[RP_TAR_NAME_MAX + 1];
    const char *data;
    size_t size, n, at = 512;
    int more, equal = 1;
    CHECK(u && rp_tar_next(u, name, &size, &err) == 1, "%s", err.msg);
    while ((more = rp_tar_piece(u, &data, &n, &err)) > 0) {
        equal &= memcmp(tar->data + at, data, n) == 0;
        at += n;
    }
    CHECK(more == 0 && at == 512 + size && rp_tar_next(u, name, &size, &err) == 0, "%s", err.msg);
    rp_unpack_free(u);
    return equal;
}

static void reads_back(const struct rp_buf *file, const struct rp_buf *tar, const char *what, size_t number)
{
    struct rp_err err;
    RP_FREE char *path = fx_path("frame");
    CHECK(rp_write_file(path, file->data, file->size, 0600, &err) == 0, "%s", err.msg);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(comes_out(rp_unpack_file(fd, 1 << 24, &err), tar), "%s %zu: other bytes", what, number);
    close(fd);
}

TEST(content_of_many_windows_comes_out_as_it_went_in)
{
    static const struct {
        int window_log, level;
        size_t distance, flush;
    } cases[] = {
        {20, 9, 1000000, 0},       {20, 9, 1 << 20, 0},      {20, 1, 131071, 0},        {10, 9, 1000, 0},
        {10, 19, 1024, 100},       {17, 3, 131072, 0},       {18, 3, 250000, 777},      {23, 9, 3000000, 0},
        {22, 5, 4000000, 0},       {20, 9, 3 << 20, 0},      {20, 9, 1 << 20, 100003},  {17, 3, 1 << 17, 30011},
        {18, 5, 1 << 18, 77777},   {20, 9, 900000, 4096},    {15, 1, 1, 0},             {20, 9, 700000, 131073},
        {20, 9, 65537, 50},        {17, 19, 30000, 0},       {18, 22, 200000, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        RP_BUF tar = {0}, file = {0};
        far_matches(&tar, cases[i].flush && cases[i].flush < 1500 ? 2000 * cases[i].flush : (size_t)3 << 20,
                    cases[i].distance);
        frame_of(&file, &tar, cases[i].window_log, cases[i].level, cases[i].flush);
        reads_back(&file, &tar, "case", i);
    }
}

/* In a window that is smaller than either size: only counting tells. */
TEST(a_frame_with_more_content_than_it_records_is_refused)
{
    RP_BUF tar = {0}, file = {0};
    far_matches(&tar, 300 << 10, 1000);
    frame_of(&file, &tar, 10, 1, 0);
    CHECK(((unsigned char)file.data[4] & 0xe0) == 0x80,
          "four bytes of content size and one of a window were expected: %02x", file.data[4]);
    for (uint32_t less = 1024; less < tar.size; less *= 3) {
        const uint32_t size = (uint32_t)tar.size - less;
        memcpy(file.data + 6, &size, sizeof size);
        frame_refused(file.data, file.size);
    }
}

/* Blocks without content between any others, of which some are stored as they are and some are not. */
TEST(blocks_of_nothing_between_others_are_no_harm)
{
    RP_BUF tar = {0}, file = {0}, padded = {0};
    size_t at = 10;
    far_matches(&tar, 1 << 20, 400000); /* noise, and then matches */
    frame_of(&file, &tar, 19, 3, 0);
    rp_buf_add(&padded, file.data, at);
    for (int last = 0, number = 1; !last; number++) {
        const unsigned char *head = (const unsigned char *)file.data + at;
        unsigned word = head[0] | (unsigned)head[1] << 8 | (unsigned)head[2] << 16;
        size_t size = 3 + ((word >> 1 & 3) == 1 ? 1 : word >> 3);
        for (int i = 0; i < number % 4; i++)
            rp_buf_add(&padded, "\0\0\0", 3);
        rp_buf_add(&padded, file.data + at, size);
        at += size;
        last = word & 1;
        CHECK(!last || number > 6, "only %d blocks", number);
    }
    CHECK(at + 4 == file.size, "the checksum was expected");
    rp_buf_add(&padded, file.data + at, 4);
    reads_back(&padded, &tar, "padded", 0);
}

static void stored_block(struct rp_buf *out, const char *data, size_t size)
{
    const unsigned char head[3] = {(unsigned char)(size << 3), (unsigned char)(size >> 5), (unsigned char)(size >> 13)};
    rp_buf_add(out, head, sizeof head);
    rp_buf_add(out, data, size);
}

/* Behind some large blocks of a member a million small ones: refused long before they are read. */
TEST(a_frame_has_no_more_blocks_than_its_content_needs)
{
    static const struct {
        const char *name, *block;
        size_t n;
    } cases[] = {{"blocks of nothing", "\0\0\0", 3},
                 {"a byte each, as it is", "\10\0\0x", 4},
                 {"a byte each, repeated once", "\12\0\0x", 4},
                 {"compressed, of no content", "\x14\0\0\0\0", 5}};
    RP_BUF tar = {0}, file = {0};
    RP_FREE char *path = fx_path("frame");
    far_matches(&tar, 3 << 20, 3 << 20);
    frame_of(&file, &tar, 17, 3, 0);
    CHECK((file.data[4] & 0xe0) == 0x80, "four bytes of content size and one of a window were expected");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        RP_BUF bent = {0};
        struct rp_err err = {0};
        char name[RP_TAR_NAME_MAX + 1];
        const char *data;
        size_t size;
        int more;
        rp_buf_add(&bent, file.data, 10);
        stored_block(&bent, tar.data, 512);
        for (size_t k = 0; k < 4; k++)
            stored_block(&bent, tar.data + 512, 131072);
        for (size_t k = 0; k < 1 << 20; k++)
            rp_buf_add(&bent, cases[i].block, cases[i].n);
        CHECK(rp_write_file(path, bent.data, bent.size, 0600, &err) == 0, "%s", err.msg);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        struct rp_unpack *u = rp_unpack_file(fd, 1 << 24, &err);
        CHECK(u && rp_tar_next(u, name, &size, &err) == 1, "%s", err.msg);
        while ((more = rp_tar_piece(u, &data, &size, &err)) > 0) {
        }
        CHECK(more < 0 && err.code == RP_MALFORMED, "%s: %s", cases[i].name, err.msg);
        SAID(err.msg); /* where it stopped */
        CHECK(lseek(fd, 0, SEEK_CUR) == 0, "the offset was moved");
        rp_unpack_free(u);
        close(fd);
    }
    for (size_t n = 1; n < file.size; n += n < 40 || n > file.size - 40 ? 1 : 99991) { /* cut anywhere */
        struct rp_bundle b;
        struct rp_err err;
        CHECK(fx_open(&b, file.data, n, &err) < 0 && err.code == RP_MALFORMED, "%zu of %zu bytes were enough", n,
              file.size);
    }
}

TEST(a_compressed_block_without_bytes_is_none)
{
    RP_BUF tar = {0}, file = {0}, bent = {0};
    far_matches(&tar, 1 << 18, 1000);
    frame_of(&file, &tar, 17, 3, 0);
    rp_buf_add(&bent, file.data, 10);
    rp_buf_add(&bent, "\4\0\0", 3);
    rp_buf_add(&bent, file.data + 10, file.size - 10);
    frame_refused(bent.data, bent.size);
}

TEST(files_that_cannot_be_bundles)
{
    struct rp_bundle b;
    struct rp_err err;
    RP_FREE char *none = fx_path("not-there"), *fifo = fx_path("fifo");
    CHECK(rp_bundle_open(&b, none, &err) < 0 && err.code == RP_IO, "%s", err.msg);
    CHECK(rp_bundle_open(&b, fx_dir(), &err) < 0, "a directory was opened");
    CHECK(mkfifo(fifo, 0600) == 0 && rp_bundle_open(&b, fifo, &err) < 0, "a pipe was opened"); /* and did not block */
}

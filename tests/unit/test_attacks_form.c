/* Attacks on the form of a bundle: frame, tar, names. All of them end at the container, before anything inside is
 * read. */
#include "tests/unit/attack.h"

#include "bundle/pack.h"

#include <zstd.h>

static struct rp_bundle good; /* an honest bundle: its members, its tar, its file */
static struct rp_buf tar, file;

static void honest(void)
{
    struct rp_err err;
    RP_FREE char *path = fx_path("honest");
    if (file.size)
        return;
    FX(x);
    fx_seal(&x, "signer", "honest");
    CHECK(rp_read_file(&file, path, 1 << 20, &err) == 0 && rp_bundle_open(&good, path, &err) == 0, "%s", err.msg);
    for (int i = 0; i < good.n; i++)
        rp_tar_add(&tar, good.member[i].name, good.member[i].bytes.data, good.member[i].bytes.size);
    rp_tar_end(&tar);
}

static void zst(struct rp_buf *out, const struct rp_buf *content)
{
    struct rp_err err;
    CHECK(rp_zst_pack(out, content->data, content->size, &err) == 0, "%s", err.msg);
}

/* Where member i begins in the tar. */
static size_t header_of(int i)
{
    size_t at = 0;
    for (int k = 0; k < i; k++)
        at += 512 + (good.member[k].bytes.size + 511) / 512 * 512;
    return at;
}

static int index_of(const char *name)
{
    for (int i = 0; i < good.n; i++)
        if (strcmp(good.member[i].name, name) == 0)
            return i;
    return CHECK(0, "no %s", name) - 1;
}

static void resum(struct rp_buf *t, size_t at)
{
    unsigned sum = 0;
    char text[8];
    memset(t->data + at + 148, ' ', 8);
    for (size_t i = 0; i < 512; i++)
        sum += (unsigned char)t->data[at + i];
    snprintf(text, sizeof text, "%06o", sum);
    memcpy(t->data + at + 148, text, 7);
}

/* ---- the frame ---- */

struct frame {
    const char *name;
    enum { PUT, ADD, BEFORE, CUT, ONLY, XOR } how; /* at a place from the end where it is negative */
    long at;
    const char *bytes;
    size_t n;
};
#define B(text) text, sizeof text - 1

static const struct frame frames[] = {
    {"an empty file", ONLY, 0, B("")},
    {"the magic number alone", ONLY, 0, B("\x28\xb5\x2f\xfd")},
    {"a frame header without blocks", ONLY, 0, B("\x28\xb5\x2f\xfd\x24\x05")},
    {"gzip", PUT, 0, B("\x1f\x8b\x08\x00")},
    {"xz", PUT, 0, B("\xfd" "7zXZ\0")},
    {"a zip archive", ONLY, 0, B("PK\3\4\24\0\0\0\0\0")},
    {"a web page instead of the download", ONLY, 0, B("<!DOCTYPE html><title>404</title>")},
    {"the magic number of zstd 0.7", PUT, 0, B("\x27\xb5\x2f\xfd")},
    {"a skippable frame before", BEFORE, 0, B("\x50\x2a\x4d\x18\x01\0\0\0x")},
    {"a skippable frame after", ADD, 0, B("\x50\x2a\x4d\x18\x01\0\0\0x")},
    {"an empty second frame", ADD, 0, B("\x28\xb5\x2f\xfd\x20\0\1\0\0")},
    {"a newline after the frame", ADD, 0, B("\n")},
    {"a NUL after the frame", ADD, 0, B("\0")},
    {"a script after the frame", ADD, 0, B("\n#!/bin/sh\nrm -rf ~\n")},
    {"a script before the frame", BEFORE, 0, B("#!/bin/sh\nexit 0\n")},
    {"a byte order mark before the frame", BEFORE, 0, B("\xef\xbb\xbf")},
    {"a reserved bit of the frame header", XOR, 4, B("\x08")},
    {"the unused bit of the frame header", XOR, 4, B("\x10")},
    {"a dictionary is named", XOR, 4, B("\x01")},
    {"no checksum of the content", XOR, 4, B("\x04")},
    {"the checksum of the content changed", XOR, -1, B("\x80")},
    {"a larger content size", XOR, 5, B("\x10")},
    {"a window of 128 MiB", ONLY, 0, B("\x28\xb5\x2f\xfd\x84\x88\0\4\0\0\x01\0\0")},
    {"a single segment of 400 MiB", ONLY, 0, B("\x28\xb5\x2f\xfd\xa4\0\0\0\x19\x01\0\0")},
    {"a block of the reserved type", XOR, 7, B("\6")},
    {"the last byte is missing", CUT, -1, B("")},
    {"the checksum is missing", CUT, -4, B("")},
    {"half a download", CUT, 2000, B("")},
};

static void make_frame(struct rp_buf *out, const struct frame *f)
{
    size_t at = f->at < 0 ? file.size - (size_t)-f->at : (size_t)f->at;
    if (f->how == BEFORE)
        rp_buf_add(out, f->bytes, f->n);
    if (f->how == ONLY)
        rp_buf_add(out, f->bytes, f->n);
    else
        rp_buf_add(out, file.data, f->how == CUT ? at : file.size);
    if (f->how == ADD)
        rp_buf_add(out, f->bytes, f->n);
    for (size_t i = 0; i < f->n && (f->how == PUT || f->how == XOR); i++)
        out->data[at + i] = (char)(f->how == PUT ? f->bytes[i] : out->data[at + i] ^ f->bytes[i]);
}

TEST(attacks_on_the_frame)
{
    honest();
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
        RP_BUF out = {0};
        make_frame(&out, &frames[i]);
        attack_write(&out);
        attack_expect(frames[i].name, NULL, RP_CHECK_container, 4);
    }
    RP_BUF twice = {0}, bare = {0};
    rp_buf_add(&twice, file.data, file.size);
    rp_buf_add(&twice, file.data, file.size);
    attack_write(&twice);
    attack_expect("two zstd frames", NULL, RP_CHECK_container, 4);
    attack_write(&tar);
    attack_expect("a tar that is not compressed", NULL, RP_CHECK_container, 4);
    zst(&bare, &file);
    attack_write(&bare);
    attack_expect("a bundle compressed twice", NULL, RP_CHECK_container, 4);
}

/* ---- headers of the tar ---- */

struct header {
    const char *name, *member;
    size_t at;
    const char *bytes;
    size_t n;
    int sum_left; /* 1: the checksum is not made right again */
};
#define TYPE 156

static const struct header headers[] = {
    {"run.json is a hard link", "run.json", TYPE, B("1"), 0},
    {"run.json is a symbolic link to /etc/passwd", "run.json", TYPE, B("2/etc/passwd"), 0},
    {"a symbolic link inside", "facts.json", TYPE, B("2run.json"), 0},
    {"a character device", "run.json", TYPE, B("3"), 0},
    {"a block device", "run.json", TYPE, B("4"), 0},
    {"a directory", "run.json", TYPE, B("5"), 0},
    {"a named pipe", "run.json", TYPE, B("6"), 0},
    {"a contiguous file", "run.json", TYPE, B("7"), 0},
    {"a regular file of before 1988", "run.json", TYPE, B("\0"), 0},
    {"a GNU sparse file", "steps/rank0.jsonl", TYPE, B("S"), 0},
    {"a GNU long name", "run.json", TYPE, B("L"), 0},
    {"a GNU long link", "run.json", TYPE, B("K"), 0},
    {"a GNU directory with names", "run.json", TYPE, B("D"), 0},
    {"a GNU volume header", "statement.dsse.json", TYPE, B("V"), 0},
    {"the rest of a file of another volume", "run.json", TYPE, B("M"), 0},
    {"a PAX record", "statement.dsse.json", TYPE, B("x"), 0},
    {"a PAX record for all members", "statement.dsse.json", TYPE, B("g"), 0},
    {"a Solaris PAX record", "run.json", TYPE, B("X"), 0},
    {"a type that nobody knows", "run.json", TYPE, B("Z"), 0},
    {"a mode for everybody", "verify.sh", 100, B("0000777"), 0},
    {"setuid", "verify.sh", 100, B("0004755"), 0},
    {"an owner by number", "run.json", 108, B("0001750"), 0},
    {"a group by number", "run.json", 116, B("0001750"), 0},
    {"an owner by name", "run.json", 265, B("root"), 0},
    {"a group by name", "run.json", 297, B("wheel"), 0},
    {"a date in the future", "run.json", 136, B("77777777777"), 0},
    {"a date in binary", "run.json", 136, B("\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"), 0},
    {"a size beyond the file", "run.json", 124, B("77777777777"), 0},
    {"a size in binary", "run.json", 124, B("\x80\0\0\0\0\0\0\0\0\1\0\0"), 0},
    {"a negative size", "run.json", 124, B("-0000000001"), 0},
    {"a size with blanks", "run.json", 124, B("       1000"), 0},
    {"a size in decimal digits", "run.json", 124, B("00000000900"), 0},
    {"a size of nothing", "run.json", 124, B("00000000000"), 0},
    {"a size that runs over the next member", "run.json", 124, B("00000040000"), 0},
    {"a wrong checksum", "run.json", 148, B("000000\0 "), 1},
    {"a checksum in another spelling", "run.json", 154, B(" \0"), 1},
    {"GNU tar's magic number", "run.json", 257, B("ustar  "), 0},
    {"no magic number", "run.json", 257, B("\0\0\0\0\0\0\0\0"), 0},
    {"a target of a link that is none", "run.json", 157, B("/etc/shadow"), 0},
    {"a device number", "run.json", 329, B("0000001"), 0},
    {"a prefix that leads out", "run.json", 345, B("../../../tmp"), 0},
    {"a prefix that makes the name another", "run.json", 345, B("steps"), 0},
    {"bytes after the name's end", "run.json", 20, B("hidden"), 0},
    {"bytes after the last field", "run.json", 500, B("x"), 0},
    {"a name of 100 bytes without an end", "run.json", 0,
     B("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), 0},
};

TEST(attacks_on_headers)
{
    honest();
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        const struct header *h = &headers[i];
        RP_BUF bent = {0}, out = {0};
        size_t at = header_of(index_of(h->member));
        rp_buf_add(&bent, tar.data, tar.size);
        memcpy(bent.data + at + h->at, h->bytes, h->n);
        if (!h->sum_left)
            resum(&bent, at);
        zst(&out, &bent);
        attack_write(&out);
        attack_expect(h->name, NULL, RP_CHECK_container, 4);
    }
}

/* ---- names ---- */

static const struct {
    const char *name, *member;
} names[] = {
    {"an absolute path", "/etc/passwd"},
    {"a path that leads out", "../../.ssh/authorized_keys"},
    {"a path that leads out and back", "run.json/../run.json"},
    {"a path from here", "./run.json"},
    {"a name of nothing", ""},
    {"a name of one blank", " "},
    {"a folder", "steps"},
    {"a folder's slash", "run.json/"},
    {"another case", "RUN.JSON"},
    {"a case that collides", "Run.json"},
    {"a case that collides in the suffix", "recipe.YAML"},
    {"a blank at the end", "run.json "},
    {"a dot at the end", "run.json."},
    {"a tab inside", "run\t.json"},
    {"a stream of NTFS", "run.json:evil"},
    {"a backslash for a slash", "steps\\rank0.jsonl"},
    {"two slashes", "steps//rank0.jsonl"},
    {"a device of Windows", "CON"},
    {"an option of tar", "--checkpoint-action=exec=sh"},
    {"a Cyrillic letter that looks Latin", "run.j\xd1\x95on"},
    {"a full-width letter", "\xef\xbd\x92un.json"},
    {"a letter with a combining accent", "re\xcc\x81"
                                         "cipe.yaml"},
    {"a zero-width joiner", "run\xe2\x80\x8d.json"},
    {"a right-to-left override", "run\xe2\x80\xaenosj."},
    {"a soft hyphen", "run\xc2\xad.json"},
    {"bytes that are no UTF-8", "run\xff.json"},
    {"an escape sequence", "\033[2Jverified"},
    {"a line that forges a verdict", "x\npassed   signature"},
    {"a rank with a leading zero", "steps/rank00.jsonl"},
    {"a rank with a sign", "steps/rank+1.jsonl"},
    {"a rank in Arabic digits", "steps/rank\xd9\xa1.jsonl"},
    {"a rank beyond all", "steps/rank99999.jsonl"},
    {"a rank of a hundred digits",
     "steps/rank1111111111111111111111111111111111111111111111111111111111111111111111111111111111.jsonl"},
    {"a hidden file", ".run.json"},
    {"a backup", "run.json~"},
    {"a report of another kind", "report.html"},
    {"the report of yesterday's bundles", "report.md"},
    {"a member of tomorrow", "attestation.json"},
};

TEST(attacks_by_names)
{
    honest();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        RP_BUF more = {0}, out = {0};
        for (int k = 0; k < good.n; k++) {
            rp_tar_add(&more, good.member[k].name, good.member[k].bytes.data, good.member[k].bytes.size);
            if (k == 4)
                rp_tar_add(&more, names[i].member, "x", 1);
        }
        rp_tar_end(&more);
        zst(&out, &more);
        attack_write(&out);
        attack_expect(names[i].name, NULL, RP_CHECK_container, 4);
    }
}

/* ---- the archive as a whole ---- */

static void add(struct rp_buf *t, int i)
{
    rp_tar_add(t, good.member[i].name, good.member[i].bytes.data, good.member[i].bytes.size);
}

/* All members, with `extra` bytes of an archive before member i. */
static void with_before(struct rp_buf *t, int i, const struct rp_buf *extra)
{
    for (int k = 0; k < good.n; k++) {
        if (k == i)
            rp_buf_add(t, extra->data, extra->size);
        add(t, k);
    }
    rp_tar_end(t);
}

static void expect_tar_by(const char *name, const struct rp_buf *t, enum rp_check_id check, int status)
{
    RP_BUF out = {0};
    zst(&out, t);
    attack_write(&out);
    attack_expect(name, NULL, check, status);
}

static void expect_tar(const char *name, const struct rp_buf *t)
{
    expect_tar_by(name, t, RP_CHECK_container, 4);
}

/* What a PAX-aware tar would read as another name or size of the member behind it. */
static void pax_before(const char *name, const char *member, char type, const char *record)
{
    RP_BUF extra = {0}, t = {0};
    rp_tar_add(&extra, "PaxHeaders/x", record, strlen(record));
    extra.data[TYPE] = type;
    resum(&extra, 0);
    with_before(&t, index_of(member), &extra);
    expect_tar(name, &t);
}

TEST(attacks_on_the_archive)
{
    char name[96];
    honest();
    pax_before("a PAX record gives run.json another name", "run.json", 'x', "17 path=evil.sh\n");
    pax_before("a PAX record gives run.json another size", "run.json", 'x', "11 size=1\n");
    pax_before("a PAX record makes a link", "run.json", 'x', "25 linkpath=/etc/passwd\n");
    pax_before("a global PAX record renames all", "statement.dsse.json", 'g', "17 path=evil.sh\n");
    pax_before("a PAX record of a sparse map", "steps/rank0.jsonl", 'x', "22 GNU.sparse.major=1\n");
    pax_before("a GNU long name before run.json", "run.json", 'L', "evil.sh");
    for (int i = 0; i < good.n; i++) { /* a row for each member of an honest bundle */
        RP_BUF less = {0}, twice = {0}, swapped = {0};
        for (int k = 0; k < good.n; k++) {
            add(&swapped, k == i ? (i + 1) % good.n : k == (i + 1) % good.n ? i : k);
            if (k != i)
                add(&less, k);
            add(&twice, k);
            if (k == i)
                add(&twice, k);
        }
        rp_tar_end(&less);
        rp_tar_end(&twice);
        rp_tar_end(&swapped);
        snprintf(name, sizeof name, "without %s", good.member[i].name);
        expect_tar(name, &less);
        snprintf(name, sizeof name, "%s twice", good.member[i].name);
        expect_tar(name, &twice);
        snprintf(name, sizeof name, "%s and the next one exchanged", good.member[i].name);
        expect_tar(name, &swapped);
    }
    RP_BUF other = {0}, second = {0}, none = {0}, long_end = {0}, one_end = {0}, no_end = {0}, padded = {0}, junk = {0},
           late = {0}, mid = {0};
    rp_tar_add(&other, "run.json", "{}\n", 3);
    with_before(&second, index_of("run.json"), &other);
    expect_tar("another run.json before the signed one", &second);
    rp_tar_end(&none);
    expect_tar("no member at all", &none);
    rp_buf_add(&long_end, tar.data, tar.size);
    rp_tar_end(&long_end);
    expect_tar("four blocks of zeros at the end", &long_end);
    rp_buf_add(&one_end, tar.data, tar.size - 512);
    expect_tar("one block of zeros at the end", &one_end);
    rp_buf_add(&no_end, tar.data, tar.size - 1024);
    expect_tar("no block of zeros at the end", &no_end);
    rp_buf_add(&padded, tar.data, tar.size);
    padded.data[header_of(1) - 1] = 'x';
    expect_tar("a byte in the padding", &padded);
    rp_buf_add(&junk, tar.data, tar.size);
    junk.data[junk.size - 1] = 1;
    expect_tar("a byte in the last block", &junk);
    rp_buf_add(&late, tar.data, tar.size);
    rp_buf_add(&late, tar.data, tar.size);
    expect_tar("a second archive behind the first", &late);
    rp_buf_add(&mid, tar.data, header_of(3));
    rp_tar_end(&mid);
    rp_buf_add(&mid, tar.data + header_of(3), tar.size - header_of(3));
    expect_tar("an end in the middle", &mid);
    RP_BUF last = {0};
    for (int k = 1; k <= good.n; k++)
        add(&last, k % good.n);
    rp_tar_end(&last);
    expect_tar("the statement comes last", &last);
}

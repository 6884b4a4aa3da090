/* Bundles that are small on disk and large inside: refused in little memory and time, whoever signed them. */
/* exhaustive */
#include "tests/unit/attack.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <zstd.h>

#define SECONDS 2.0
#define GROWTH_KIB (64 << 10) /* of a process; the sanitizers' own share is in what it has before */

/* ---- a frame written as it comes ---- */

struct writer {
    int fd;
    ZSTD_CCtx *c;
    char out[1 << 17];
};

static void write_frame(struct writer *w, const void *data, size_t size, ZSTD_EndDirective how)
{
    ZSTD_inBuffer in = {data, size, 0};
    size_t left;
    do {
        ZSTD_outBuffer out = {w->out, sizeof w->out, 0};
        left = ZSTD_compressStream2(w->c, &out, &in, how);
        CHECK(!ZSTD_isError(left) && rp_write_all(w->fd, w->out, out.pos) == 0, "%s", ZSTD_getErrorName(left));
    } while (how == ZSTD_e_end ? left : in.pos < in.size);
}

static void frame_begin(struct writer *w, uint64_t content)
{
    RP_FREE char *path = fx_path("bomb");
    w->fd = open(path, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);
    w->c = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(w->c, ZSTD_c_compressionLevel, 1);
    ZSTD_CCtx_setParameter(w->c, ZSTD_c_checksumFlag, 1);
    CHECK(w->fd >= 0 && !ZSTD_isError(ZSTD_CCtx_setPledgedSrcSize(w->c, content)), "no frame");
}

static void frame_end(struct writer *w)
{
    write_frame(w, NULL, 0, ZSTD_e_end);
    ZSTD_freeCCtx(w->c);
    close(w->fd);
}

static void repeat(struct writer *w, const char *text, uint64_t size)
{
    char block[1 << 16];
    size_t n = strlen(text);
    for (size_t i = 0; i < sizeof block; i++)
        block[i] = n ? text[i % n] : 0;
    size_t whole = n ? sizeof block / n * n : sizeof block;
    for (uint64_t at = 0; at < size; at += whole)
        write_frame(w, block, size - at < whole ? (size_t)(size - at) : whole, ZSTD_e_continue);
}

/* ---- what it takes to refuse it ---- */

static void bomb_refused(const char *name, enum rp_check_id check, enum rp_code code)
{
    struct rp_verification v;
    struct rp_verified kept = {0};
    struct rp_verify_opts o = {.keep = &kept}; /* as compare, report, sign and replicate ask: what they keep is no reason for more memory */
    struct rp_err err = {0};
    struct rusage before, used;
    int status = 0, fds[2];
    RP_FREE char *path = fx_path("bomb");
    CHECK(pipe(fds) == 0, "no pipe");
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        getrusage(RUSAGE_SELF, &before);
        int ok = rp_verify(&v, path, &o, &err) < 0 && err.code == code && v.check[check].state == RP_CHECK_FAILED &&
                 write(fds[1], err.msg, sizeof err.msg) == sizeof err.msg;
        getrusage(RUSAGE_SELF, &used);
        double s = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
        long grown = used.ru_maxrss - before.ru_maxrss;
        printf("# %s: %.2f s, %ld KiB more, %s\n", name, s, grown, ok ? "refused" : err.msg);
        fflush(stdout);
        _exit(!ok ? 1 : s > SECONDS ? 2 : grown > GROWTH_KIB ? 3 : 0);
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0,
          "%s: not refused (1), too slow (2) or too large (3): %d", name, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    if (status == 0 && read(fds[0], err.msg, sizeof err.msg) == sizeof err.msg)
        SAID(err.msg);
    close(fds[0]);
    close(fds[1]);
}

TEST(frames_that_blow_up)
{
    struct writer w;
    uint64_t many = 3ull << 28; /* above what is accepted */
    fx_dir();
    frame_begin(&w, many);
    repeat(&w, "", many);
    frame_end(&w);
    bomb_refused("768 MiB of zeros that say so", RP_CHECK_container, RP_MALFORMED);

    RP_FREE char *path = fx_path("bomb");
    unsigned char head[9];
    int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK(pread(fd, head, 9, 0) == 9 && (head[4] & 0xe0) == 0x80, "four bytes of content size and one of a window were expected: %02x", head[4]);
    CHECK(pwrite(fd, "\0\0\2\0", 4, 6) == 4, "no place");
    close(fd);
    bomb_refused("768 MiB of zeros that say 128 KiB", RP_CHECK_container, RP_MALFORMED);

    /* as much as may be inside, in a file that is large enough for it: a member's header every 512 bytes, 400,000 of them: 200 MB of memory */
    RP_BUF one = {0};
    uint64_t members = 400000, noise = 3u << 20;
    rp_tar_add(&one, "statement.dsse.json", "", 0);
    frame_begin(&w, members * 512 + noise);
    for (uint64_t i = 0; i < members; i++) {
        char name[32];
        one.size = 0;
        snprintf(name, sizeof name, i ? "steps/rank%d.jsonl" : "statement.dsse.json", (int)(i % 9999));
        rp_tar_add(&one, name, "", 0);
        write_frame(&w, one.data, one.size, ZSTD_e_continue);
    }
    uint64_t state = 1;
    for (uint64_t i = 0; i < noise / 8; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        write_frame(&w, &state, 8, ZSTD_e_continue);
    }
    frame_end(&w);
    bomb_refused("400,000 members", RP_CHECK_container, RP_MALFORMED);
}

/* ---- signed by somebody, so that all of it is read ---- */

struct large {
    const char *member, *text; /* text again and again */
    uint64_t size;
};

static void digest_of(char hex[RP_SHA256_HEX], const struct large *l)
{
    char block[1 << 16];
    size_t n = strlen(l->text), whole = sizeof block / n * n;
    unsigned char raw[RP_SHA256_SIZE];
    struct rp_sha256 h;
    for (size_t i = 0; i < sizeof block; i++)
        block[i] = l->text[i % n];
    rp_sha256_init(&h);
    for (uint64_t at = 0; at < l->size; at += whole)
        rp_sha256_update(&h, block, l->size - at < whole ? (size_t)(l->size - at) : whole);
    rp_sha256_final(&h, raw);
    rp_hex(hex, raw, sizeof raw);
}

/* An honest bundle but for one large member, and bytes that do not compress where nobody reads them, so that the file is large enough. */
static void large_bundle(const struct large *l)
{
    struct rp_bundle b;
    struct rp_err err;
    struct writer w;
    RP_BUF noise = {0};
    RP_FREE char *path = fx_path("bomb");
    uint64_t state = 1, content = 1024;
    FX_KEY *key = fx_key("attacker");
    FX(x);
    fx_seal(&x, "attacker", "bomb");
    CHECK(rp_bundle_open(&b, path, &err) == 0, "%s", err.msg);
    for (uint64_t i = 0; i < l->size / 640; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint64_t word = state ^ state >> 29;
        rp_buf_add(&noise, &word, 8);
    }
    fx_add(&b, "env/node0.hwloc.xml", noise.data, noise.size);
    struct rp_member *m = (struct rp_member *)rp_bundle_find(&b, l->member);
    rp_buf_fini(&m->bytes);
    m->left_out = 1;
    m->size = l->size;
    digest_of(m->sha256, l);
    attack_sums(&b, "", key);
    attack_sign(&b, x.facts, x.run, NULL, key);
    for (int i = 0; i < b.n; i++)
        content += 512 + (rp_member_size(&b.member[i]) + 511) / 512 * 512;
    frame_begin(&w, content);
    for (int i = 0; i < b.n; i++) {
        RP_BUF tar = {0};
        if (b.member[i].left_out) {
            rp_tar_add_header(&tar, b.member[i].name, b.member[i].size);
            write_frame(&w, tar.data, tar.size, ZSTD_e_continue);
            repeat(&w, l->text, l->size);
            repeat(&w, "", (512 - l->size % 512) % 512);
        } else {
            rp_tar_add(&tar, b.member[i].name, b.member[i].bytes.data, b.member[i].bytes.size);
            write_frame(&w, tar.data, tar.size, ZSTD_e_continue);
        }
    }
    repeat(&w, "", 1024);
    frame_end(&w);
    rp_bundle_fini(&b);
}

TEST(members_that_blow_up)
{
    static const struct {
        const char *name;
        struct large large;
        enum rp_check_id check;
    } rows[] = {
        {"a line of 250 MiB", {"steps/rank0.jsonl", "a", 250u << 20}, RP_CHECK_schema},
        {"130 million empty lines", {"steps/rank0.jsonl", "\n", 130u << 20}, RP_CHECK_schema},
        {"100 million brackets in a line", {"steps/rank0.jsonl", "[", 100u << 20}, RP_CHECK_schema},
        {"four million brackets", {"run.json", "[", 4u << 20}, RP_CHECK_schema},
        {"a million empty objects", {"run.json", "{},", 4u << 20}, RP_CHECK_schema},
        {"four million brackets of facts", {"facts.json", "[", 4u << 20}, RP_CHECK_schema},
        {"a million empty objects of facts", {"facts.json", "{},", 4u << 20}, RP_CHECK_schema},
        {"a text of 4 MiB", {"run.json", "\"", 4u << 20}, RP_CHECK_schema},
        {"four million brackets in a capture", {"env/node0.before.json", "{\"a\":", 4u << 20}, RP_CHECK_schema},
        {"a recipe of 4 MiB", {"recipe.yaml", "- [{[{", 4u << 20}, RP_CHECK_recipe},
        {"a document larger than any", {"run.json", " ", 5u << 20}, RP_CHECK_container},
        {"a member larger than any", {"steps/rank0.jsonl", " ", 257u << 20}, RP_CHECK_container},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        large_bundle(&rows[i].large);
        bomb_refused(rows[i].name, rows[i].check, rows[i].check >= RP_CHECK_recipe ? RP_MISMATCH : RP_MALFORMED);
    }
}

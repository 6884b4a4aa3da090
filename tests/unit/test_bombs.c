/* Bundles that are small on disk and large inside: refused in little memory and time, whoever signed them. */
/* exhaustive */
#include "tests/unit/attack.h"

#include "base/text.h"

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
    /* as compare, report, sign and replicate ask: what they keep is no reason for more memory */
    struct rp_verify_opts o = {.keep = &kept};
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
        double s = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                   (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
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
    CHECK(pread(fd, head, 9, 0) == 9 && (head[4] & 0xe0) == 0x80,
          "four bytes of content size and one of a window were expected: %02x", head[4]);
    CHECK(pwrite(fd, "\0\0\2\0", 4, 6) == 4, "no place");
    close(fd);
    bomb_refused("768 MiB of zeros that say 128 KiB", RP_CHECK_container, RP_MALFORMED);

    /* as much as may be inside, in a file that is large enough for it: a member's header every 512 bytes, 400,000 of
     * them: 200 MB of memory */
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

/* Bytes that do not compress where nobody reads them, so that a file with so much content is large enough. */
static void add_noise(struct rp_bundle *b, uint64_t content)
{
    RP_BUF noise = {0};
    uint64_t state = 1;
    for (uint64_t i = 0; i < content / 640; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint64_t word = state ^ state >> 29;
        rp_buf_add(&noise, &word, 8);
    }
    fx_add(b, "env/node0.hwloc.xml", noise.data, noise.size);
}

/* fx_path("bomb"): what is left out of b is that text, again and again. */
static void write_members(const struct rp_bundle *b, const char *text)
{
    struct writer w;
    uint64_t content = 1024;
    for (int i = 0; i < b->n; i++)
        content += 512 + (rp_member_size(&b->member[i]) + 511) / 512 * 512;
    frame_begin(&w, content);
    for (int i = 0; i < b->n; i++) {
        const struct rp_member *m = &b->member[i];
        RP_BUF tar = {0};
        if (m->left_out) {
            rp_tar_add_header(&tar, m->name, m->size);
            write_frame(&w, tar.data, tar.size, ZSTD_e_continue);
            repeat(&w, text, m->size);
            repeat(&w, "", (512 - m->size % 512) % 512);
        } else {
            rp_tar_add(&tar, m->name, m->bytes.data, m->bytes.size);
            write_frame(&w, tar.data, tar.size, ZSTD_e_continue);
        }
    }
    repeat(&w, "", 1024);
    frame_end(&w);
}

/* An honest bundle but for one large member. */
static void large_bundle(const struct large *l)
{
    struct rp_bundle b;
    struct rp_err err;
    RP_FREE char *path = fx_path("bomb");
    FX_KEY *key = fx_key("attacker");
    FX(x);
    fx_seal(&x, "attacker", "bomb");
    CHECK(rp_bundle_open(&b, path, &err) == 0, "%s", err.msg);
    add_noise(&b, l->size);
    struct rp_member *m = (struct rp_member *)rp_bundle_find(&b, l->member);
    rp_buf_fini(&m->bytes);
    m->left_out = 1;
    m->size = l->size;
    digest_of(m->sha256, l);
    attack_sums(&b, "", key);
    attack_sign(&b, x.facts, x.run, NULL, key);
    write_members(&b, l->text);
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

/* An honest bundle with members of zeros, each of `most` bytes at most, so that those that count have `all` bytes
 * together. */
static void full_bundle(const char *kind, const char *what, uint64_t most, uint64_t all)
{
    struct rp_err err;
    struct rp_bundle b;
    RP_FREE char *path = fx_path("bomb");
    const int documents = strcmp(kind, "env/node") == 0;
    FX(x);
    fx_seal(&x, "attacker", "bomb");
    CHECK(rp_bundle_open(&b, path, &err) == 0, "%s", err.msg);
    add_noise(&b, all);
    for (int i = 0; i < b.n; i++)
        if (!documents || (strncmp(b.member[i].name, "steps/", 6) != 0 && !rp_ends_with(b.member[i].name, ".xml")))
            all -= b.member[i].bytes.size;
    for (int i = 1; all; i++) {
        const char *name = rp_member_name((char[RP_MEMBER_NAME]){0}, kind, i, what);
        fx_add(&b, name, "", 0);
        struct rp_member *m = (struct rp_member *)rp_bundle_find(&b, name);
        m->left_out = 1;
        m->size = all < most ? all : most;
        all -= m->size;
    }
    write_members(&b, "");
    rp_bundle_fini(&b);
}

/* Each small enough: as many as a bundle may have, and a byte more. */
TEST(members_that_are_too_much_together)
{
    static const struct {
        const char *kind, *what;
        uint64_t most, all;
    } rows[] = {{"env/node", ".before.json", 4 << 20, 32 << 20}, {"steps/rank", ".jsonl", 256 << 20, 512 << 20}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (uint64_t more = 0; more < 2; more++) {
            struct rp_err err = {0};
            struct rp_bundle b;
            RP_FREE char *path = fx_path("bomb");
            full_bundle(rows[i].kind, rows[i].what, rows[i].most, rows[i].all + more);
            int failed = rp_bundle_skim(&b, path, &err) < 0;
            CHECK(failed == (int)more && (!failed || err.code == RP_MALFORMED), "%s, %d more: %s", rows[i].kind,
                  (int)more, failed ? err.msg : "read");
            if (failed)
                said_without_sizes(strchr(err.msg, ':') + 1);
            else
                rp_bundle_fini(&b);
            unlink(path);
        }
}

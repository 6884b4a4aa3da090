/* Any bytes as a vocabulary, as merges, as tokenizer.json or as a text. A vocabulary is refused with one line, or gives
 * ids that are below its size. A text is refused for its UTF-8 alone; its pre-tokens are the whole text, and its ids
 * have as many bytes. The first byte chooses. */
#include "base/buf.h"
#include "base/text.h"
#include "data/text/bpe.h"
#include "data/text/pretokens.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define VECTORS "tests/vectors/bpe/"

static char path[64];
static int file = -1;

static const char *put(const void *data, size_t size)
{
    if (file >= 0)
        close(file);
    file = memfd_create("fuzz", MFD_CLOEXEC);
    must(file >= 0 && rp_write_all(file, data, size) == 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    return path;
}

static char lines[] = "/tmp/rp-fuzz-XXXXXX.jsonl";

static void remove_lines(void)
{
    unlink(lines);
}

/* Its name makes it a file of lines. */
static const char *put_lines(const void *data, size_t size)
{
    static int fd = -1;
    if (fd < 0) {
        fd = mkstemps(lines, 6);
        atexit(remove_lines);
    }
    must(fd >= 0 && ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0 && rp_write_all(fd, data, size) == 0);
    return lines;
}

static int is_utf8(const char *p, size_t n)
{
    unsigned c;
    for (size_t length; n; p += length, n -= length)
        if (!(length = rp_utf8(p, n, &c)))
            return 0;
    return 1;
}

static void encode(struct rp_bpe *b, const char *text, size_t n)
{
    RP_TOKEN_DOCS docs = {0};
    struct rp_err err = {0};
    int refused = rp_bpe_encode(b, text, n, &docs, &err) < 0;
    must(refused == !is_utf8(text, n));
    if (refused) {
        must_be_refusal(&err);
        return;
    }
    size_t at = 0;
    for (size_t length; at < n; at += length) {
        length = rp_pretoken(text + at, n - at);
        must(length > 0 && length <= n - at && is_utf8(text + at, length));
    }
    must(docs.ids <= n && (n == 0) == (docs.ids == 0));
    for (size_t i = 0; i < docs.ids; i++)
        must(docs.id[i] < rp_bpe_vocabulary(b));
    /* the cache gives the same */
    must(rp_bpe_encode(b, text, n, &docs, &err) == 0);
    must(docs.ids == 0 || memcmp(docs.id, docs.id + docs.ids / 2, docs.ids / 2 * sizeof *docs.id) == 0);
}

static void use(struct rp_bpe *b, const struct rp_err *err)
{
    static const char text[] = "the quick brown fox, they're 12 \xc3\xa9t\xc3\xa9  \n";
    if (b)
        encode(b, text, sizeof text - 1);
    else
        must_be_refusal(err);
    rp_bpe_free(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct rp_bpe *known;
    struct rp_err err = {0};
    RP_TOKEN_DOCS docs = {0};
    if (size < 1 || size > 65536)
        return 0;
    if (!known)
        known = rp_bpe_load(VECTORS "vocab.json", VECTORS "merges.txt", &err);
    must(known != NULL);
    switch (*data % 5) {
    case 0:
        use(rp_bpe_load(put(data + 1, size - 1), VECTORS "merges.txt", &err), &err);
        break;
    case 1:
        use(rp_bpe_load(VECTORS "vocab.json", put(data + 1, size - 1), &err), &err);
        break;
    case 2:
        use(rp_bpe_load_tokenizer(put(data + 1, size - 1), &err), &err);
        break;
    case 3:
        encode(known, (const char *)data + 1, size - 1);
        break;
    default: { /* a text as a file of lines */
        struct rp_text_skipped skipped = {0};
        const char *texts = put_lines(data + 1, size - 1);
        if (rp_text_documents(known, texts, &docs, NULL, &err) < 0)
            must_be_refusal(&err);
        must(rp_text_documents(known, texts, &docs, &skipped, &err) == 0 &&
             (skipped.lines != 0) == (skipped.first.code != RP_OK));
    }
    }
    return 0;
}

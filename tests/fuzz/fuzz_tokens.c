/* Any bytes as files of tokens: refused with one line, or read, and then every token of every sample is below the
 * vocabulary and neighbours share one. The first byte chooses: llm.c, plain tokens of 2 or 4 bytes, an index and its
 * tokens as they are, or an index made around the bytes, of which the next ones change one value. */
#include "base/buf.h"
#include "data/token_files.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SEQ = 4, VOCAB = 300, SAMPLES = 40 };

static char directory[] = "/tmp/rp-fuzz-tokens-XXXXXX", idx[64], bin[64], name[64];

static void remove_directory(void)
{
    unlink(idx);
    unlink(bin);
    rmdir(directory);
}

static void make_directory(void)
{
    if (*idx)
        return;
    must(mkdtemp(directory) != NULL);
    snprintf(idx, sizeof idx, "%s/a.idx", directory);
    snprintf(bin, sizeof bin, "%s/a.bin", directory);
    snprintf(name, sizeof name, "%s/a", directory);
    atexit(remove_directory);
}

static void put(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    must(f && fwrite(data, 1, size, f) == size && fclose(f) == 0);
}

static void check_samples(struct rp_dataset *d, int in_order)
{
    struct rp_err err = {0};
    int32_t row[SEQ + 1], before = -1;
    void *const rows[] = {row};
    int64_t n = d->format->count(d);
    must(n > 0);
    for (int64_t i = 0; i < (n < SAMPLES ? n + 1 : SAMPLES); i++) {
        if (d->format->get(d, i, rows, &err) < 0) {
            must_be_refusal(&err);
            before = -1;
            continue;
        }
        for (int k = 0; k <= SEQ; k++)
            must(row[k] >= 0 && row[k] < VOCAB);
        must(!in_order || i == n || before < 0 || row[0] == before);
        before = row[SEQ];
    }
}

static void read_all(const char *format, const char *path, const struct rp_data_opts *o)
{
    const struct rp_sample_field want = {RP_TOKENS_FIELD, RP_I32, SEQ + 1, VOCAB};
    struct rp_sample_field own[RP_SAMPLE_FIELDS_MAX];
    struct rp_data_check c;
    struct rp_err err = {0};
    int n;
    const struct rp_data_format *f = rp_data_format_find(format);
    struct rp_dataset *d = f->open(path, &want, 1, o, &err);
    if (!d)
        must_be_refusal(&err);
    else if (check_samples(d, !o->shuffle), f->check(d, &c, NULL, NULL, &err) < 0)
        must_be_refusal(&err);
    f->close(d);
    if (f->probe(path, o, own, &n, &err) < 0)
        must_be_refusal(&err);
}

static void read_orders(const char *format, const char *path, struct rp_data_opts o)
{
    read_all(format, path, &o);
    o.shuffle = 1;
    read_all(format, path, &o);
    o.order = o.seed & 128 ? RP_DATA_ORDER_megatron_2x : RP_DATA_ORDER_megatron;
    o.samples = (int64_t)o.seed % 64;
    o.split = o.seed & 64 ? "2,1" : "";
    if (strcmp(format, "megatron") == 0)
        read_all(format, path, &o);
}

static void add(struct rp_buf *b, uint64_t v, size_t width)
{
    rp_buf_add(b, &v, width);
}

/* A good index of up to 16 sequences, with one value changed at `at` if that lies inside. */
static void read_mended(const uint8_t *data, size_t size, uint64_t seed)
{
    RP_BUF index = {0};
    static const uint8_t codes[] = {1, 2, 3, 4, 5, 8}, widths[] = {1, 1, 2, 4, 8, 2};
    if (size < 8)
        return;
    size_t n = 1 + data[0] % 16, kind = data[1] % 6, width = widths[kind], at = data[2] | (size_t)data[3] << 8,
           tokens = 0;
    int64_t change = (int8_t)data[4];
    data += 5;
    size -= 5;
    rp_buf_add(&index, "MMIDIDX\0", 9);
    add(&index, 1, 8);
    add(&index, codes[kind], 1);
    add(&index, n, 8);
    add(&index, n + 1, 8);
    uint64_t length[16];
    for (size_t k = 0; k < n; k++) {
        length[k] = k < n - 1 ? data[k % size] % 9 : 0;
        if (tokens + length[k] > size / width || k == n - 1)
            length[k] = size / width - tokens < 9 || k == n - 1 ? size / width - tokens : 9;
        tokens += length[k];
        add(&index, length[k], 4);
    }
    for (size_t k = 0, sum = 0; k < n; sum += length[k++] * width)
        add(&index, sum, 8);
    for (size_t k = 0; k <= n; k++)
        add(&index, k, 8);
    if (at < index.size)
        index.data[at] = (char)(index.data[at] + change);
    put(idx, index.data, index.size);
    put(bin, data, tokens * width);
    read_orders("megatron", name, (struct rp_data_opts){.seed = seed});
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 4 || size > 65536)
        return 0;
    make_directory();
    unsigned kind = data[0] % 5;
    uint64_t seed = data[1];
    size_t split = (data[2] | (size_t)data[3] << 8) % (size - 3);
    data += 4;
    size -= 4;
    put(bin, data, size);
    if (kind == 0)
        read_orders("llmc", bin, (struct rp_data_opts){.seed = seed});
    else if (kind < 3)
        read_orders("tokens", bin, (struct rp_data_opts){.seed = seed, .token_bytes = kind == 1 ? 2 : 4});
    else if (kind == 3) {
        put(idx, data, split);
        put(bin, data + split, size - split);
        read_orders("megatron", name, (struct rp_data_opts){.seed = seed});
    } else {
        read_mended(data, size, seed);
    }
    return 0;
}

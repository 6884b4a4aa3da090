/* llm.c's token files: a header of 256 int32, little endian, and the tokens.
 *
 *     int32 magic | int32 version | int32 number of tokens | 253 int32, not used | tokens
 *     GPT-2:   20240520, 1, uint16 tokens        Llama 3: 20240801, 7, uint32 tokens
 *
 * Samples are windows inside one file (token_files.h). Of a shard llm.c drops the tail that does not fill a batch of
 * all processes, here only the tail that does not fill a sequence is dropped; without shuffling, batches are the same
 * until the end of the first shard. The order of data.shuffle is not that of llm.c's -s option, which depends on the
 * number of processes. */
#include "data/token_docs.h"
#include "data/token_files.h"

#include <string.h>

#define HEADER 1024

static const struct kind {
    int32_t magic, version;
    enum rp_token_type type;
    int64_t vocabulary;
    const char *name;
} kinds[] = {
    {20240520, 1, RP_TOKEN_U16, 50257, "GPT-2"},
    {20240801, 7, RP_TOKEN_U32, 128256, "Llama 3"},
};

static const struct kind *kind_of(const int32_t *header)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].magic == header[0])
            return &kinds[i];
    return NULL;
}

int rp_token_is_llmc(const int32_t *header)
{
    const struct kind *k = kind_of(header);
    return k && k->version == header[1];
}

static int llmc_header(struct rp_files *files, int i, const struct kind **kind, struct rp_token_range *out,
                       struct rp_err *err)
{
    const struct rp_file *f = &files->file[i];
    int32_t h[3];
    if (f->size < HEADER)
        return rp_fail(
            err, RP_MALFORMED,
            "'%s' has %llu bytes, fewer than the header of %d: it is truncated, or not a token file of llm.c", f->name,
            (unsigned long long)f->size, HEADER);
    if (rp_files_read(files, i, 0, h, sizeof h, err) < 0)
        return -1;
    const struct kind *k = kind_of(h);
    if (rp_token_is_npy(h, sizeof h))
        return rp_fail(err, RP_MALFORMED, "'%s' is an array of numpy: its format is data.format tokens", f->name);
    if (!k)
        return rp_fail(err, RP_MALFORMED,
                       "'%s' begins with %ld, expected llm.c's magic number %ld (GPT-2) or %ld (Llama 3); plain tokens "
                       "without a header are data.format tokens, and 'repro data make' writes texts as tokens",
                       f->name, (long)h[0], (long)kinds[0].magic, (long)kinds[1].magic);
    if (h[1] != k->version)
        return rp_fail(err, RP_MALFORMED,
                       "'%s' has version %ld, expected %ld for %s; make it again with llm.c's dev/data", f->name,
                       (long)h[1], (long)k->version, k->name);
    uint64_t width = rp_token_bytes(k->type), have = (f->size - HEADER) / width;
    if (h[2] < 0 || (uint64_t)h[2] * width + HEADER != f->size)
        return rp_fail(err, RP_MALFORMED,
                       "'%s': the header announces %ld tokens of %llu bytes, the file has %llu bytes, which are %llu "
                       "tokens: %s",
                       f->name, (long)h[2], (unsigned long long)width, (unsigned long long)f->size,
                       (unsigned long long)have,
                       h[2] < 0 || have < (uint64_t)h[2] ? "it is truncated, or not finished"
                                                         : "more was appended, or the header is damaged");
    *out = (struct rp_token_range){k->type, HEADER, h[2]};
    *kind = k;
    return 0;
}

static int llmc_head(struct rp_token_set *s, int i, struct rp_err *err)
{
    const struct kind *kind;
    return llmc_header(&s->files, i, &kind, &s->range[i], err);
}

static struct rp_dataset *llmc_open(const char *path, const struct rp_sample_field *field, int n,
                                    const struct rp_data_opts *o, struct rp_err *err)
{
    return rp_token_windows_open(&rp_data_format_llmc, llmc_head, path, field, n, o, err);
}

static int llmc_probe(const char *path, const struct rp_data_opts *o, struct rp_sample_field *field, int *n,
                      struct rp_err *err)
{
    struct rp_files files;
    struct rp_token_range range;
    const struct kind *kind = kinds;
    if (rp_data_list(&rp_data_format_llmc, &files, path, err) < 0)
        return -1;
    int failed = llmc_header(&files, 0, &kind, &range, err) < 0;
    rp_files_close(&files);
    if (failed)
        return -1;
    rp_token_probe(o, kind->vocabulary, field, n);
    return 0;
}

/* As dev/data/data_common.py: GPT-2's form, <|endoftext|> before every document. */
static int llmc_make(struct rp_buf *file, const struct rp_token_docs *d, int64_t first, int64_t end,
                     const struct rp_data_opts *o, struct rp_err *err)
{
    int64_t tokens = 0;
    (void)o;
    for (int64_t i = first; i < end; i++)
        tokens += rp_token_docs_length(d, i);
    if (d->vocabulary > UINT16_MAX + 1)
        return rp_fail(
            err, RP_USAGE,
            "data.format llmc: ids of GPT-2's form are below 65536, the vocabulary has %lld; choose megatron, or "
            "tokens with --token-bytes 4",
            (long long)d->vocabulary);
    if (tokens > INT32_MAX)
        return rp_fail(err, RP_USAGE,
                       "data.format llmc: %lld tokens are more than one file can have; give more --shards",
                       (long long)tokens);
    const int32_t header[HEADER / 4] = {kinds[0].magic, kinds[0].version, (int32_t)tokens};
    rp_buf_add(file, header, sizeof header);
    rp_token_docs_write(file, d, first, end, 1, 2);
    return 0;
}

const struct rp_data_format rp_data_format_llmc = {
    .name = "llmc",
    .summary = "llm.c: .bin files of a header and tokens, of GPT-2 or Llama 3",
    .in_name = ".bin",
    .endings = {".bin"},
    .make = llmc_make,
    .probe = llmc_probe,
    .open = llmc_open,
    .close = rp_token_windows_close,
    .count = rp_token_windows_count,
    .get = rp_token_windows_get,
    .check = rp_token_windows_check,
};

/* Plain files of token ids, uint16 or uint32 (data.token_bytes), little endian, without a header: nanoGPT's train.bin
 * is uint16. Arrays of numpy, as build-nanogpt writes its shards, say themselves what they have (npy.c), whatever their
 * name is.
 *
 * Samples are windows inside one file (token_files.h). nanoGPT draws random offsets instead. A directory gives all of
 * its .bin and .npy files, also val.bin: data.path names train.bin. */
#include "data/token_docs.h"
#include "data/token_files.h"

static int tokens_head(struct rp_token_set *s, int i, struct rp_err *err)
{
    const struct rp_file *f = &s->files.file[i];
    int32_t header[2];
    if (f->size >= sizeof header && rp_files_read(&s->files, i, 0, header, sizeof header, err) < 0)
        return -1;
    if (f->size >= sizeof header && rp_token_is_npy(header, sizeof header))
        return rp_token_npy(&s->files, i, &s->range[i], err);
    enum rp_token_type type = s->opts.token_bytes == 4 ? RP_TOKEN_U32 : RP_TOKEN_U16;
    uint64_t width = rp_token_bytes(type);
    if (f->size % width)
        return rp_fail(
            err, RP_MALFORMED,
            "'%s' has %llu bytes, not a multiple of the %llu of a token (data.token_bytes): it is truncated, "
            "or not a file of plain tokens",
            f->name, (unsigned long long)f->size, (unsigned long long)width);
    if (f->size >= sizeof header && rp_token_is_llmc(header))
        return rp_fail(err, RP_MALFORMED,
                       "'%s' begins with the header of llm.c's token files: its format is data.format llmc", f->name);
    s->range[i] = (struct rp_token_range){type, 0, (int64_t)(f->size / width)};
    return 0;
}

static int check_width(const struct rp_data_opts *o, struct rp_err *err)
{
    int n = o->token_bytes;
    return !n || n == 2 || n == 4 ? 0 : rp_fail(err, RP_USAGE, "data.token_bytes %d: expected 2 or 4", n);
}

static struct rp_dataset *tokens_open(const char *path, const struct rp_sample_field *field, int n,
                                      const struct rp_data_opts *o, struct rp_err *err)
{
    return check_width(o, err) < 0 ? NULL
                                   : rp_token_windows_open(&rp_data_format_tokens, tokens_head, path, field, n, o, err);
}

static int tokens_probe(const char *path, const struct rp_data_opts *o, struct rp_sample_field *field, int *n,
                        struct rp_err *err)
{
    (void)path;
    (void)err;
    rp_token_probe(o, 0, field, n);
    return 0;
}

/* As nanoGPT's prepare.py: <|endoftext|> after every document. */
static int tokens_make(struct rp_buf *file, const struct rp_token_docs *d, int64_t first, int64_t end,
                       const struct rp_data_opts *o, struct rp_err *err)
{
    if (check_width(o, err) < 0)
        return -1;
    if (o->token_bytes != 4 && d->vocabulary > UINT16_MAX + 1)
        return rp_fail(
            err, RP_USAGE,
            "data.format tokens: ids of 2 bytes are below 65536, the vocabulary has %lld; give --token-bytes 4",
            (long long)d->vocabulary);
    rp_token_docs_write(file, d, first, end, 0, o->token_bytes == 4 ? 4 : 2);
    return 0;
}

const struct rp_data_format rp_data_format_tokens = {
    .name = "tokens",
    .summary = "plain .bin files of uint16 or uint32 tokens, or numpy's .npy",
    .in_name = ".bin|.npy",
    .endings = {".bin"},
    .make = tokens_make,
    .probe = tokens_probe,
    .open = tokens_open,
    .close = rp_token_windows_close,
    .count = rp_token_windows_count,
    .get = rp_token_windows_get,
    .check = rp_token_windows_check,
};

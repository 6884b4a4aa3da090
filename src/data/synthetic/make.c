#include "data/synthetic/make.h"

#include "data/archive.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* bert_samples.c */
extern const struct rp_generator rp_generator_bert;
extern const struct rp_generator rp_generator_llmc, rp_generator_tokens, rp_generator_megatron; /* gpt_documents.c */
extern const struct rp_generator rp_generator_images;                                                   /* images.c */

const struct rp_generator *const rp_generators[] = {&rp_generator_bert,     &rp_generator_llmc,   &rp_generator_tokens,
                                                    &rp_generator_megatron, &rp_generator_images, NULL};

const struct rp_generator *rp_generator_find(const char *name)
{
    for (int i = 0; rp_generators[i]; i++)
        if (strcmp(rp_generators[i]->name, name) == 0 || strcmp(rp_generators[i]->format->name, name) == 0)
            return rp_generators[i];
    return NULL;
}

static const struct {
    const char *name;
    size_t offset;
    long lo, hi;
} options[] = {
#define OPTION(field, name, letter, def, lo, hi, help) {name, offsetof(struct rp_make_opts, field), lo, hi},
#include "data/synthetic/options.def"
#undef OPTION
};

int rp_make_options(struct rp_make_opts *o, const struct rp_generator *g, struct rp_err *err)
{
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        long *value = (long *)((char *)o + options[i].offset),
             def = *(const long *)((const char *)&g->defaults + options[i].offset);
        if (*value && !def)
            return rp_fail(err, RP_USAGE, "`data make %s` has no option --%s", g->name, options[i].name);
        *value = *value ? *value : def;
        if (def && (*value < options[i].lo || *value > options[i].hi))
            return rp_fail(err, RP_USAGE, "--%s %ld is out of range %ld..%ld", options[i].name, *value, options[i].lo,
                           options[i].hi);
    }
    if (o->sequences && o->shards > o->sequences)
        return rp_fail(err, RP_USAGE, "--shards %ld is out of range 1..%ld", o->shards, o->sequences);
    return g->check ? g->check(o, err) : 0;
}

/* The documents of a shard, and as many shards of them. */
static int make_documents(struct rp_buf *out, const struct rp_generator *g, const struct rp_make_opts *o, int64_t first,
                          int64_t end, struct rp_err *err)
{
    const struct rp_data_opts format = {.token_bytes = (int)o->token_bytes};
    if (g->documents)
        return g->format->make(out, g->documents, first, end, &format, err);
    RP_TOKEN_DOCS docs = {.eod = (uint32_t)o->vocab_size - 1, .vocabulary = o->vocab_size};
    for (int64_t i = first; i < end; i++)
        g->document(&docs, o, i);
    return g->format->make(out, &docs, 0, docs.n, &format, err);
}

int rp_make_shard(struct rp_buf *out, const struct rp_generator *g, const struct rp_make_opts *o, int i,
                  struct rp_err *err)
{
    RP_BUG_IF(i < 0 || i >= o->shards);
    int64_t first = i * o->sequences / o->shards, end = (i + 1) * o->sequences / o->shards;
    if (!g->sample)
        return make_documents(out, g, o, first, end, err);
    for (int64_t s = first; s < end; s++)
        g->sample(out, o, s);
    return 0;
}

void rp_make_shard_name(char out[64], const struct rp_generator *g, const struct rp_make_opts *o, int i, int k)
{
    snprintf(out, 64, "%s-%05d-of-%05ld%s", g->name, i, o->shards, g->format->endings[k]);
}

static int file_count(const struct rp_generator *g)
{
    return g->format->endings[1] ? 2 : 1;
}

int rp_refuse_existing(const char *path, struct rp_err *err)
{
    struct stat st;
    return lstat(path, &st) == 0 ? rp_fail(err, RP_USAGE, "'%s' exists; choose another name, or give --force", path)
                                 : 0;
}

int rp_make_directory(const struct rp_generator *g, const struct rp_make_opts *o, const char *dir, int force,
                      struct rp_err *err)
{
    char name[64];
    int files = file_count(g);
    for (int pass = 0; pass < 2; pass++) /* check that no file exists before writing the first */
        for (int i = 0; i < o->shards; i++) {
            struct rp_buf bytes[RP_SHARD_FILES_MAX] = {{0}};
            int failed = pass == 1 && (rp_make_shard(bytes, g, o, i, err) < 0 || rp_mkdirs(dir, 0777, err) < 0);
            for (int k = 0; k < files; k++) {
                rp_make_shard_name(name, g, o, i, k);
                RP_FREE char *path = rp_asprintf("%s/%s", dir, name);
                if (!failed)
                    failed = pass == 0 ? (!force && rp_refuse_existing(path, err) < 0)
                                       : rp_write_file(path, rp_buf_text(&bytes[k]), bytes[k].size, 0666, err) < 0;
                rp_buf_fini(&bytes[k]);
            }
            if (failed)
                return -1;
        }
    return 0;
}

int rp_make_archive_bytes(struct rp_buf *out, const struct rp_generator *g, const struct rp_make_opts *o,
                          const char *path, struct rp_err *err)
{
    char name[64];
    int files = file_count(g), n = 0, failed = 0;
    struct rp_archive_member *member = rp_alloc((size_t)(o->shards * files) * sizeof *member);
    for (int i = 0; i < o->shards && !failed; i++) {
        struct rp_buf bytes[RP_SHARD_FILES_MAX] = {{0}};
        failed = rp_make_shard(bytes, g, o, i, err) < 0;
        for (int k = 0; k < files; k++) {
            rp_make_shard_name(name, g, o, i, k);
            size_t size = bytes[k].size;
            member[n++] = (struct rp_archive_member){rp_strdup(name), (unsigned char *)rp_buf_take(&bytes[k]), size};
        }
    }
    failed = failed || rp_archive_make(out, path, member, n, err) < 0;
    rp_archive_members_free(member, n);
    return failed ? -1 : 0;
}

int rp_make_archive(const struct rp_generator *g, const struct rp_make_opts *o, const char *path, int force,
                    struct rp_err *err)
{
    RP_BUF bytes = {0};
    if (!force && rp_refuse_existing(path, err) < 0)
        return -1;
    return rp_make_archive_bytes(&bytes, g, o, path, err) < 0 ? -1
                                                              : rp_write_file(path, bytes.data, bytes.size, 0666, err);
}

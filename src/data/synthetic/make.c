#include "data/synthetic/make.h"

#include "data/archive.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

extern const struct rp_generator rp_generator_bert; /* bert.c */

const struct rp_generator *const rp_generators[] = {&rp_generator_bert, NULL};

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
        long *value = (long *)((char *)o + options[i].offset), def = *(const long *)((const char *)&g->defaults + options[i].offset);
        if (*value && !def)
            return rp_fail(err, RP_USAGE, "`data make %s` has no option --%s", g->name, options[i].name);
        *value = *value ? *value : def;
        if (def && (*value < options[i].lo || *value > options[i].hi))
            return rp_fail(err, RP_USAGE, "--%s %ld is out of range %ld..%ld", options[i].name, *value, options[i].lo, options[i].hi);
    }
    if (o->shards > o->sequences)
        return rp_fail(err, RP_USAGE, "--shards %ld is out of range 1..%ld", o->shards, o->sequences);
    return g->check ? g->check(o, err) : 0;
}

void rp_make_shard(struct rp_buf *out, const struct rp_generator *g, const struct rp_make_opts *o, int i)
{
    RP_BUG_IF(i < 0 || i >= o->shards);
    for (int64_t s = i * o->sequences / o->shards; s < (i + 1) * o->sequences / o->shards; s++)
        g->sample(out, o, s);
}

void rp_make_shard_name(char out[64], const struct rp_generator *g, const struct rp_make_opts *o, int i)
{
    snprintf(out, 64, "%s-%05d-of-%05ld%s", g->name, i, o->shards, g->format->in_name);
}

static int refuse_existing(const char *path, int force, struct rp_err *err)
{
    struct stat st;
    if (!force && lstat(path, &st) == 0)
        return rp_fail(err, RP_USAGE, "'%s' exists; choose another name, or give --force", path);
    return 0;
}

int rp_make_directory(const struct rp_generator *g, const struct rp_make_opts *o, const char *dir, int force, struct rp_err *err)
{
    char name[64];
    if (rp_mkdirs(dir, 0777, err) < 0)
        return -1;
    for (int pass = 0; pass < 2; pass++) /* check that no file exists before writing the first */
        for (int i = 0; i < o->shards; i++) {
            RP_BUF bytes = {0};
            rp_make_shard_name(name, g, o, i);
            RP_FREE char *path = rp_asprintf("%s/%s", dir, name);
            if (pass == 1)
                rp_make_shard(&bytes, g, o, i);
            if (pass == 0 ? refuse_existing(path, force, err) < 0 : rp_write_file(path, bytes.data, bytes.size, 0666, err) < 0)
                return -1;
        }
    return 0;
}

int rp_make_archive(const struct rp_generator *g, const struct rp_make_opts *o, const char *path, int force, struct rp_err *err)
{
    char name[64];
    if (refuse_existing(path, force, err) < 0)
        return -1;
    struct rp_archive_member *member = rp_alloc((size_t)o->shards * sizeof *member);
    for (int i = 0; i < o->shards; i++) {
        RP_BUF bytes = {0};
        rp_make_shard_name(name, g, o, i);
        rp_make_shard(&bytes, g, o, i);
        size_t size = bytes.size;
        member[i] = (struct rp_archive_member){rp_strdup(name), (unsigned char *)rp_buf_take(&bytes), size};
    }
    int failed = rp_archive_write(path, member, (int)o->shards, err) < 0;
    rp_archive_members_free(member, (int)o->shards);
    return failed ? -1 : 0;
}

/* A data format for tests/build/new_model.sh: one file of records, a byte of label and then the bytes of the image. */
#include "base/buf.h"
#include "data/dataset.h"
#include "data/shuffle.h"

#include <stdlib.h>
#include <string.h>

struct raw {
    struct rp_dataset base;
    struct rp_buf bytes;
    long record;
    int shuffle, image, label; /* which field is which */
    uint64_t seed;
    int64_t below;
};

static void close_raw(struct rp_dataset *d)
{
    if (d)
        rp_buf_fini(&((struct raw *)d)->bytes);
    free(d);
}

static struct rp_dataset *open_raw(const char *path, const struct rp_sample_field *field, int fields,
                                   const struct rp_data_opts *o, struct rp_err *err)
{
    struct raw *d = rp_alloc(sizeof *d);
    *d = (struct raw){.base.format = &rp_data_format_raw_images, .shuffle = o->shuffle, .seed = o->seed};
    for (int i = 0; i < fields; i++) {
        *(strcmp(field[i].name, "image") == 0 ? &d->image : &d->label) = i;
        d->record += field[i].count;
        if (field[i].below)
            d->below = field[i].below;
    }
    if (rp_read_file(&d->bytes, path, 1 << 24, err) == 0 && d->bytes.size >= (size_t)d->record &&
        d->bytes.size % (size_t)d->record == 0)
        return &d->base;
    if (err->code == RP_OK)
        rp_fail(err, RP_MALFORMED, "'%.200s' is not made of records of %ld bytes", path, d->record);
    close_raw(&d->base);
    return NULL;
}

static int64_t count(const struct rp_dataset *d)
{
    return (int64_t)((const struct raw *)d)->bytes.size / ((const struct raw *)d)->record;
}

static int get(struct rp_dataset *base, int64_t sample, void *const *row, struct rp_err *err)
{
    struct raw *d = (struct raw *)base;
    int64_t i = rp_sample_record(sample, count(base), d->shuffle, d->seed);
    const unsigned char *at = (const unsigned char *)d->bytes.data + i * d->record;
    if (*at >= d->below)
        return rp_fail(err, RP_MALFORMED, "record %lld (from 0), field 'label': %d, expected less than %lld",
                       (long long)i, *at, (long long)d->below);
    *(int32_t *)row[d->label] = *at;
    memcpy(row[d->image], at + 1, (size_t)d->record - 1);
    return 0;
}

static int check(struct rp_dataset *base, struct rp_data_check *out, int (*tick)(void *arg, int64_t done, int64_t all),
                 void *arg, struct rp_err *err)
{
    (void)tick, (void)arg, (void)err;
    *out = (struct rp_data_check){.files = 1, .bytes = ((struct raw *)base)->bytes.size, .records = count(base)};
    return 0;
}

static int probe(const char *path, const struct rp_data_opts *o, struct rp_sample_field *field, int *n,
                 struct rp_err *err)
{
    (void)path, (void)o, (void)err;
    field[0] = (struct rp_sample_field){"image", RP_U8, 64, 0};
    field[1] = (struct rp_sample_field){"label", RP_I32, 1, 10};
    *n = 2;
    return 0;
}

const struct rp_data_format rp_data_format_raw_images = {.name = "raw_images",
                                                         .summary = "a byte of label, then the pixels",
                                                         .in_name = ".raw", .probe = probe, .open = open_raw,
                                                         .close = close_raw, .count = count, .get = get,
                                                         .check = check};

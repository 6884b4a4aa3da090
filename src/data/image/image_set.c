#include "data/image/image_set.h"

#include "backend/cpu/inner.h"
#include "backend/cpu/limits.h"
#include "base/buf.h"
#include "base/text.h"
#include "data/image/resize.h"
#include "data/shuffle.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_SIZE 224
#define DEFAULT_SHORT_SIDE 256
#define THREADS_MAX 64    /* without data.threads */
#define REPLACED_MAX 1000 /* damaged records in a row before it is the data set that is damaged */
#define CHECKED_AT_ONCE 128

struct rp_image_lane { /* what one thread needs */
    struct rp_jpeg *jpeg;
    struct rp_resize resize;
    struct rp_image_room room;
};

static struct rp_image_set *images(struct rp_dataset *d)
{
    return (struct rp_image_set *)d;
}

uint8_t *rp_image_room(struct rp_image_room *room, size_t size)
{
    if (size > room->cap) {
        free(room->p);
        room->p = rp_alloc(size + size / 4);
        room->cap = size + size / 4;
    }
    return room->p;
}

/* ---- open and close ---- */

static int threads_of(const struct rp_image_opts *o)
{
    int n = o->threads ? o->threads : o->device_threads ? o->device_threads : rp_cpu_count("");
    return o->threads || n < THREADS_MAX ? n : THREADS_MAX;
}

/* Larger images need more, and those of several scans up to 3 bytes a pixel besides: a data set is not read to make a
 * plan. */
uint64_t rp_image_working_bytes(const struct rp_data_opts *o)
{
    const uint64_t encoded = 5 << 18, rows = 1500, decoder = 1 << 18; /* encoded: as rp_image_room() grows for 1 MiB */
    uint64_t size = (uint64_t)(o->image.crop.image_size ? o->image.crop.image_size : DEFAULT_SIZE);
    return (uint64_t)threads_of(&o->image) * (encoded + rows * 3 * size + decoder);
}

void rp_image_fields(const struct rp_data_opts *o, int64_t classes, struct rp_sample_field *field, int *n)
{
    long size = o->image.crop.image_size ? o->image.crop.image_size : DEFAULT_SIZE;
    field[0] = (struct rp_sample_field){"image", RP_U8, size * size * 3, 0};
    field[1] = (struct rp_sample_field){"label", RP_I32, 1, classes};
    *n = 2;
}

static int want_field(struct rp_image_set *s, const struct rp_data_format *format, const struct rp_sample_field *field,
                      int i, struct rp_err *err)
{
    struct rp_sample_field own[RP_SAMPLE_FIELDS_MAX];
    int n, k = 0;
    rp_image_fields(&s->opts, 0, own, &n);
    while (k < n && strcmp(own[k].name, field->name) != 0)
        k++;
    if (k == n)
        return rp_fail(err, RP_USAGE, "data.format %s has no field '%s', only image, label; choose another data.format",
                       format->name, field->name);
    if (field->dtype != own[k].dtype || field->count != own[k].count)
        return rp_fail(err, RP_USAGE,
                       "field '%s' of data.format %s has %ld elements %s (task.image_size %d), not %ld %s", field->name,
                       format->name, own[k].count, rp_dtype_name(own[k].dtype), s->image_size, field->count,
                       rp_dtype_name(field->dtype));
    if (k == 0) {
        s->image_row = i;
    } else {
        s->label_row = i;
        s->below = field->below ? field->below : (int64_t)INT32_MAX + 1;
    }
    return 0;
}

int rp_image_set_init(struct rp_image_set *s, const struct rp_data_format *format, const struct rp_image_reader *reader,
                      const struct rp_sample_field *field, int fields, const struct rp_data_opts *o, struct rp_err *err)
{
    struct rp_crop_opts crop = o->image.crop;
    s->base.format = format;
    s->reader = reader;
    s->opts = *o;
    s->image_size = crop.image_size = crop.image_size ? crop.image_size : DEFAULT_SIZE;
    crop.short_side = crop.short_side ? crop.short_side : DEFAULT_SHORT_SIDE;
    s->label_base = o->image.label_base ? o->image.label_base - 1 : reader->label_base;
    s->threads = threads_of(&o->image);
    s->below = (int64_t)INT32_MAX + 1;
    s->image_row = s->label_row = -1;
    rp_crop_init(&s->crop, &crop);
    pthread_mutex_init(&s->reading, NULL);
    s->lane = rp_alloc((size_t)s->threads * sizeof *s->lane);
    for (int i = 0; i < fields; i++)
        if (want_field(s, format, &field[i], i, err) < 0)
            return -1;
    return 0;
}

void rp_image_set_fini(struct rp_image_set *s)
{
    rp_pool_free(s->pool);
    for (int i = 0; s->lane && i < s->threads; i++) {
        rp_jpeg_free(s->lane[i].jpeg);
        rp_resize_fini(&s->lane[i].resize);
        free(s->lane[i].room.p);
    }
    if (s->lane)
        pthread_mutex_destroy(&s->reading);
    free(s->lane);
    s->lane = NULL;
}

int64_t rp_image_count(const struct rp_dataset *d)
{
    return ((const struct rp_image_set *)d)->count;
}

static int start_pool(struct rp_image_set *s, struct rp_err *err)
{
    if (!s->pool)
        s->pool = rp_pool_new(s->threads, err);
    return s->pool ? 0 : -1;
}

/* ---- one record ---- */

/* Puts the image's name and label before the message, and the record's place before these. */
static int at_image(const struct rp_image_set *s, int64_t record, const struct rp_image_record *r, struct rp_err *err)
{
    char name[72];
    if (*r->name)
        rp_wrap(err, "image '%s' with label %lld", rp_excerpt(name, r->name), (long long)r->label);
    else
        rp_wrap(err, "image with label %lld", (long long)r->label);
    return s->reader->place(s, record, err);
}

static int read_record(struct rp_image_set *s, struct rp_image_lane *lane, int64_t record, struct rp_image_record *r,
                       struct rp_err *err)
{
    *r = (struct rp_image_record){0};
    pthread_mutex_lock(&s->reading);
    int failed = s->reader->read(s, record, &lane->room, r, err) < 0;
    pthread_mutex_unlock(&s->reading);
    if (failed)
        return s->reader->place(s, record, err);
    return 0;
}

static int check_label(const struct rp_image_set *s, int64_t record, const struct rp_image_record *r,
                       struct rp_err *err)
{
    long long from = s->label_base, last = (long long)s->below - 1 + from;
    if (r->label >= from && r->label <= last)
        return 0;
    if (r->label == 0)
        rp_fail(err, RP_MALFORMED, "data.label_base is 1, but these labels count from 0, set data.label_base to 0");
    else if (r->label == last + 1 && from == 0)
        rp_fail(err, RP_MALFORMED, "expected 0..%lld; if the labels count from 1, set data.label_base to 1", last);
    else
        rp_fail(err, RP_MALFORMED, "expected %lld..%lld (data.label_base %lld)", from, last, from);
    return at_image(s, record, r, err);
}

static struct rp_jpeg *decoder(struct rp_image_lane *lane)
{
    if (!lane->jpeg)
        lane->jpeg = rp_jpeg_new();
    return lane->jpeg;
}

static int decode_sample(struct rp_image_set *s, struct rp_image_lane *lane, int64_t sample,
                         const struct rp_image_record *r, uint8_t *out, struct rp_err *err)
{
    struct rp_jpeg_info info;
    struct rp_image_window w;
    int flip;
    if (rp_jpeg_open(decoder(lane), r->bytes, r->size, &info, err) < 0)
        return -1;
    rp_crop_draw(&s->crop, info.width, info.height, sample, &w, &flip);
    rp_resize_begin(&lane->resize, w.width, w.height, s->image_size, s->opts.image.filter, flip);
    if (rp_jpeg_rows(lane->jpeg, &w, s->opts.image.fancy, rp_resize_row, &lane->resize, err) < 0)
        return -1;
    rp_resize_end(&lane->resize, out);
    return 0;
}

/* image, label: NULL where the field is not wanted. */
static int make_sample(struct rp_image_set *s, struct rp_image_lane *lane, int64_t sample, uint8_t *image,
                       int32_t *label, struct rp_err *err)
{
    int64_t record = rp_sample_record(sample, s->count, s->opts.shuffle, s->opts.seed);
    for (int replaced = 0;; record = (record + 1) % s->count) {
        struct rp_image_record r;
        int failed = read_record(s, lane, record, &r, err);
        if (!failed && check_label(s, record, &r, err) < 0)
            return -1;
        if (!failed && image && decode_sample(s, lane, sample, &r, image, err) < 0)
            failed = at_image(s, record, &r, err);
        if (!failed) {
            if (label)
                *label = (int32_t)(r.label - s->label_base);
            return 0;
        }
        if (!s->opts.image.skip_damaged || err->code != RP_MALFORMED)
            return -1;
        atomic_fetch_add(&s->base.skipped, 1);
        if (++replaced == s->count || replaced == REPLACED_MAX)
            return rp_wrap(err, "%d damaged records in a row, the last", replaced);
    }
}

int rp_image_get(struct rp_dataset *d, int64_t sample, void *const *row, struct rp_err *err)
{
    struct rp_image_set *s = images(d);
    return make_sample(s, s->lane, sample, s->image_row < 0 ? NULL : row[s->image_row],
                       s->label_row < 0 ? NULL : row[s->label_row], err);
}

/* ---- many samples ---- */

struct image_job {
    struct rp_image_set *s;
    int64_t sample;
    uint8_t *image;
    int32_t *label;
    pthread_mutex_t lock;
    int64_t failed; /* the first sample that failed, whichever thread was faster; -1: none */
    struct rp_err err;
};

static void run_part(void *arg, int part, int thread)
{
    struct image_job *job = arg;
    struct rp_image_set *s = job->s;
    struct rp_err err = {0};
    size_t bytes = 3 * (size_t)s->image_size * (size_t)s->image_size;
    if (make_sample(s, &s->lane[thread], job->sample + part, job->image ? job->image + (size_t)part * bytes : NULL,
                    job->label ? job->label + part : NULL, &err) == 0)
        return;
    pthread_mutex_lock(&job->lock);
    if (job->failed < 0 || part < job->failed) {
        job->failed = part;
        job->err = err;
    }
    pthread_mutex_unlock(&job->lock);
}

int rp_image_get_batch(struct rp_dataset *d, int64_t sample, int64_t n, void *const *column, struct rp_err *err)
{
    struct rp_image_set *s = images(d);
    struct image_job job = {.s = s,
                            .sample = sample,
                            .image = s->image_row < 0 ? NULL : column[s->image_row],
                            .label = s->label_row < 0 ? NULL : column[s->label_row],
                            .lock = PTHREAD_MUTEX_INITIALIZER,
                            .failed = -1};
    if (start_pool(s, err) < 0)
        return -1;
    rp_pool_run(s->pool, (int)n, run_part, &job);
    if (job.failed < 0)
        return 0;
    *err = job.err;
    return -1;
}

/* ---- the whole set ---- */

struct checked_image { /* what is reported of one record */
    int64_t label;
    struct rp_jpeg_info info;
    int turned, damaged, failed;
    struct rp_err err;
};

struct check_job {
    struct rp_image_set *s;
    int64_t first;
    struct checked_image image[CHECKED_AT_ONCE];
};

static void ignore_row(void *arg, const uint8_t *rgb)
{
    (void)arg;
    (void)rgb;
}

static void check_part(void *arg, int part, int thread)
{
    struct check_job *job = arg;
    struct rp_image_set *s = job->s;
    struct rp_image_lane *lane = &s->lane[thread];
    struct checked_image *c = &job->image[part];
    struct rp_image_record r;
    int64_t record = job->first + part;
    *c = (struct checked_image){0};
    int damaged = read_record(s, lane, record, &r, &c->err) < 0;
    if (!damaged && check_label(s, record, &r, &c->err) < 0) {
        c->failed = 1;
        return;
    }
    if (!damaged) {
        c->label = r.label;
        c->turned = rp_jpeg_orientation(r.bytes, r.size) != 1;
        damaged = rp_jpeg_open(decoder(lane), r.bytes, r.size, &c->info, &c->err) < 0 ||
                  rp_jpeg_rows(lane->jpeg, &(struct rp_image_window){0, 0, c->info.width, c->info.height},
                               s->opts.image.fancy, ignore_row, NULL, &c->err) < 0;
        if (damaged)
            at_image(s, record, &r, &c->err);
    }
    c->damaged = damaged && s->opts.image.skip_damaged && c->err.code == RP_MALFORMED;
    c->failed = damaged && !c->damaged;
}

enum { CLASSES, SMALLEST, LARGEST, PIXELS, LARGEST_IMAGE, GRAY, CMYK, SCANS, TURNED, DAMAGED, FACT_COUNT };
static const struct rp_data_fact facts[FACT_COUNT] = {
    [CLASSES] = {"classes", "classes", NULL, RP_FACT_TOTAL, 0},
    [SMALLEST] = {"smallest_label", "stored labels", "the smallest", RP_FACT_TOTAL, 0},
    [LARGEST] = {"largest_label", NULL, "the largest", RP_FACT_TOTAL, 0},
    [PIXELS] = {"pixels", "pixels", NULL, RP_FACT_PER_RECORD, 0},
    [LARGEST_IMAGE] = {"largest_image", NULL, "of the largest", RP_FACT_TOTAL, 0},
    [GRAY] = {"gray", "gray", NULL, RP_FACT_TOTAL, 0},
    [CMYK] = {"cmyk", NULL, "CMYK", RP_FACT_TOTAL, 0},
    [SCANS] = {"several_scans", NULL, "progressive", RP_FACT_TOTAL, 0},
    [TURNED] = {"oriented", NULL, "with an EXIF orientation, which is ignored", RP_FACT_TOTAL, 0},
    [DAMAGED] = {"damaged", "damaged", NULL, RP_FACT_TOTAL, 0},
};

static void count_image(const struct checked_image *c, int64_t value[FACT_COUNT], unsigned char *seen, int64_t classes)
{
    int64_t pixels = (int64_t)c->info.width * c->info.height;
    value[DAMAGED] += c->damaged;
    if (c->damaged)
        return;
    if (c->label < classes && !seen[c->label]) {
        seen[c->label] = 1;
        value[CLASSES]++;
    }
    value[SMALLEST] = c->label < value[SMALLEST] ? c->label : value[SMALLEST];
    value[LARGEST] = c->label > value[LARGEST] ? c->label : value[LARGEST];
    value[PIXELS] += pixels;
    value[LARGEST_IMAGE] = pixels > value[LARGEST_IMAGE] ? pixels : value[LARGEST_IMAGE];
    value[GRAY] += c->info.colour == RP_JPEG_GRAY;
    value[CMYK] += c->info.colour == RP_JPEG_CMYK;
    value[SCANS] += c->info.scans;
    value[TURNED] += c->turned;
}

int rp_image_check(struct rp_dataset *d, struct rp_data_check *out, int (*tick)(void *arg, int64_t done, int64_t all),
                   void *arg, struct rp_err *err)
{
    struct rp_image_set *s = images(d);
    int64_t n = s->count, classes = s->below + 1 < 1 << 24 ? s->below + 1 : 1 << 24,
            value[FACT_COUNT] = {[SMALLEST] = INT64_MAX};
    RP_FREE unsigned char *seen = rp_alloc((size_t)classes);
    RP_FREE struct check_job *job = rp_alloc(sizeof *job);
    job->s = s;
    *out = (struct rp_data_check){.files = s->files->n, .records = n};
    for (int i = 0; i < s->files->n; i++)
        out->bytes += s->files->file[i].size;
    if (start_pool(s, err) < 0)
        return -1;
    for (int64_t i = 0; i < n; i += CHECKED_AT_ONCE) {
        int parts = n - i < CHECKED_AT_ONCE ? (int)(n - i) : CHECKED_AT_ONCE;
        if (tick && tick(arg, i, n))
            return rp_fail(err, RP_INTERRUPTED, "interrupted after %lld of %lld records", (long long)i, (long long)n);
        job->first = i;
        rp_pool_run(s->pool, parts, check_part, job);
        for (int k = 0; k < parts; k++) {
            if (job->image[k].failed) {
                *err = job->image[k].err;
                return -1;
            }
            count_image(&job->image[k], value, seen, classes);
        }
    }
    if (value[DAMAGED] == n)
        return rp_fail(err, RP_MALFORMED, "all %lld records are damaged", (long long)n);
    for (int i = 0; i < FACT_COUNT; i++) {
        out->fact[out->facts] = facts[i];
        out->fact[out->facts++].value = value[i];
    }
    return rp_files_digest(s->files, out->digest, err);
}

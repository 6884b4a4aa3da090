/* `repro data bench`: how fast images are read, decoded and cropped, without training on them. */
#include "backend/cpu/limits.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "cli/opts.h"
#include "data/dataset.h"
#include "data/image/image_set.h"
#include "report/template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 64 /* samples of one call, as of a micro-batch */
#define COUNTS_MAX 16

struct bench_opts {
    const char *format, *threads, *augment;
    long seconds, image_size;
};
#define AT(field) offsetof(struct bench_opts, field)
static const struct rp_opt bench_opts[] = {
    RP_OPTION_TEXT(format, "format", 0, "NAME", "data.format of the files; default imagenet_tfrecord"),
    RP_OPTION_TEXT(threads, "threads", 0, "N,N...",
                   "numbers of decoding threads; default 1, 2, 4 and so on up to the CPUs"),
    RP_OPTION_INT(seconds, "seconds", 0, 1, 3600, "least time for each number of threads; default 3"),
    RP_OPTION_INT(image_size, "image-size", 0, 1, 4096, "task.image_size; default 224"),
    RP_OPTION_CHOICE(augment, "augment", 0, RP_CHOICES(RP_AUGMENTS),
                     "crop_flip or none, as data.augment; default crop_flip"),
    {0},
};
#undef AT

struct measured {
    int threads;
    int64_t images;
    double seconds;
};

static int all_threads(int *threads)
{
    int cpus = rp_cpu_count(""), n = 0;
    for (int t = 1; t < cpus && n < COUNTS_MAX - 1; t *= 2)
        threads[n++] = t;
    threads[n++] = cpus;
    return n;
}

static int parse_threads(const char *text, int *threads, struct rp_err *err)
{
    int n = 0;
    for (const char *p = text;; p++) {
        char *end;
        long t = strtol(p, &end, 10);
        if (end == p || t < 1 || t > 1024 || (*end && *end != ',') || n == COUNTS_MAX)
            return rp_fail(err, RP_USAGE, "option '--threads': '%s' is not a list of at most %d numbers from 1 to 1024",
                           text, COUNTS_MAX);
        threads[n++] = (int)t;
        if (!*end)
            return n;
        p = end;
    }
}

/* The recipe keys' defaults. */
static struct rp_data_opts image_opts(const struct bench_opts *o, int threads)
{
    int random = !o->augment || strcmp(o->augment, "crop_flip") == 0, size = o->image_size ? (int)o->image_size : 224;
    return (struct rp_data_opts){
        .shuffle = 1, .seed = 3, .image = {.crop = {.random = random,
                           .image_size = size, .short_side = size * 8 / 7, .area_min = 0.08, .area_max = 1,
                           .ratio_min = 0.75, .ratio_max = 1.3333333333333333, .attempts = 10, .flip = 0.5, .seed = 4},
                  .fancy = 1,
                  .threads = threads},
    };
}

/* One batch first, which starts the threads. */
static int measure_reading(struct rp_dataset *d, const struct bench_opts *o, void *const *column, struct measured *m,
                           struct rp_err *err)
{
    uint64_t least = (uint64_t)(o->seconds ? o->seconds : 3) * 1000000000ull, start = 0;
    for (int64_t batch = 0;; batch++) {
        if (d->format->get_batch(d, batch * BATCH, BATCH, column, err) < 0)
            return -1;
        if (rp_interrupted())
            return rp_fail(err, RP_INTERRUPTED, "interrupted");
        uint64_t now = rp_now_ns();
        if (batch == 0)
            start = now;
        m->images = batch * BATCH;
        m->seconds = (double)(now - start) / 1e9;
        if (batch && now - start >= least)
            return 0;
    }
}

static int bench_threads(const struct rp_data_format *format, const char *path, const struct bench_opts *o,
                         struct measured *m, int64_t *records, struct rp_err *err)
{
    struct rp_data_opts opts = image_opts(o, m->threads);
    struct rp_sample_field field[RP_SAMPLE_FIELDS_MAX];
    void *column[2];
    int n;
    rp_image_fields(&opts, 0, field, &n);
    struct rp_dataset *d = format->open(path, field, n, &opts, err);
    if (!d)
        return -1;
    *records = format->count(d);
    for (int i = 0; i < n; i++)
        column[i] = rp_alloc((size_t)(BATCH * field[i].count) * rp_dtype_bytes(field[i].dtype));
    int failed = measure_reading(d, o, column, m, err);
    for (int i = 0; i < n; i++)
        free(column[i]);
    format->close(d);
    return failed;
}

/* At once: each takes seconds. */
static void print_measured(const struct rp_cli *cli, const json_t *row)
{
    RP_BUF text = {0};
    if (cli->json)
        return;
    rp_show(&text, RP_FILL_TEXT, row,
            "{/threads t 4} thread{/threads s -1} {/images_per_second d1 10} images/s {/images_per_second_a_thread d1 "
            "8} a thread\n");
    rp_cli_print(&text);
    fflush(stdout);
}

static int cmd_data_bench(struct rp_cli *cli, struct rp_err *err)
{
    const struct bench_opts *o = cli->opts;
    const char *path = cli->argv[0], *name = o->format ? o->format : "imagenet_tfrecord";
    const struct rp_data_format *format = rp_data_format_find(name);
    int threads[COUNTS_MAX], n = o->threads ? parse_threads(o->threads, threads, err) : all_threads(threads);
    int64_t records = 0;
    if (n < 0)
        return -1;
    if (!format || !format->get_batch)
        return rp_fail(err, RP_USAGE,
                       "'%s' is not a format of images; expected imagenet_tfrecord, image_folder, ofrecord or recordio",
                       name);
    json_t *list = json_array();
    cli->result = json_pack("{s:o, s:s, s:o}", "path", rp_cli_path(path), "format", name, "results", list);
    for (int i = 0; i < n; i++) {
        struct measured m = {.threads = threads[i]};
        if (bench_threads(format, path, o, &m, &records, err) < 0)
            return -1;
        const double rate = (double)m.images / m.seconds;
        json_array_append_new(list, json_pack("{s:i, s:I, s:f, s:f, s:f}", "threads", m.threads, "images",
                                              (json_int_t)m.images, "seconds", m.seconds, "images_per_second", rate,
                                              "images_per_second_a_thread", rate / m.threads));
        print_measured(cli, json_array_get(list, (size_t)i));
    }
    json_object_set_new(cli->result, "records", json_integer(records));
    return 0;
}

const struct rp_command rp_cmd_data_bench = {
    .name = "data bench",
    .operands = "PATH",
    .summary = "measure how many images a second are decoded and cropped",
    .details = "Reads PATH as a run would, in shuffled order with random crops, 64 samples at a time, and reports "
               "images per second for each number of threads. Files that are not in memory yet make the first figures "
               "slower.\n"
               "\n"
               "Examples:\n"
               "  repro data bench /data/imagenet --format imagenet_tfrecord --threads 1,2,4,8\n",
    .opts = bench_opts,
    .opts_size = sizeof(struct bench_opts),
    .run = cmd_data_bench,
};

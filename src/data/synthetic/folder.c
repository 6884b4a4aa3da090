#include "data/synthetic/folder.h"

#include "base/buf.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "data/example.h"
#include "data/image/image_set.h"
#include "data/synthetic/make.h"
#include "data/tfrecord.h"

#include <stdlib.h>
#include <string.h>

#define BYTES(text) \
    (struct rp_example_bytes) { (const unsigned char *)(text), strlen(text) }

/* "n01440764" of "train/n01440764/n01440764_18.JPEG" */
static void class_name(char out[256], const char *path)
{
    const char *end = strrchr(path, '/'), *from = end ? end : path;
    while (from > path && from[-1] != '/')
        from--;
    snprintf(out, 256, "%.*s", (int)(end ? end - from : 0), from);
}

static int add_record(struct rp_buf *out, struct rp_image_set *s, struct rp_jpeg *j, struct rp_image_room *room,
                      int64_t record, struct rp_err *err)
{
    struct rp_image_record r = {0};
    struct rp_jpeg_info info;
    RP_BUF example = {0};
    char class[256];
    const char *path = s->files->file[record].name;
    if (s->reader->read(s, record, room, &r, err) < 0 || rp_jpeg_open(j, r.bytes, r.size, &info, err) < 0)
        return s->reader->place(s, record, err);
    class_name(class, path);
    int64_t height = info.height, width = info.width, label = 1 + r.label;
    struct rp_example_bytes name = BYTES(rp_base_name(path)), synset = BYTES(class), encoded = {r.bytes, r.size};
    struct rp_example_field field[] = {
        {.name = "image/height", .want = RP_EXAMPLE_INT64, .out.i64 = &height, .count = 1},
        {.name = "image/width", .want = RP_EXAMPLE_INT64, .out.i64 = &width, .count = 1},
        {.name = "image/class/label", .want = RP_EXAMPLE_INT64, .out.i64 = &label, .count = 1},
        {.name = "image/class/synset", .want = RP_EXAMPLE_BYTES, .out.bytes = &synset, .count = 1},
        {.name = "image/filename", .want = RP_EXAMPLE_BYTES, .out.bytes = &name, .count = 1},
        {.name = "image/encoded", .want = RP_EXAMPLE_BYTES, .out.bytes = &encoded, .count = 1},
    };
    rp_example_write(&example, field, (int)(sizeof field / sizeof *field));
    rp_tfrecord_append(out, example.data, example.size);
    return 0;
}

static char *shard_path(const char *dir, long shard, long shards)
{
    return rp_asprintf("%s/images-%05ld-of-%05ld", dir, shard, shards);
}

static int refuse_shards(const char *dir, long shards, struct rp_err *err)
{
    for (long i = 0; i < shards; i++) {
        RP_FREE char *path = shard_path(dir, i, shards);
        if (rp_refuse_existing(path, err) < 0)
            return -1;
    }
    return 0;
}

static int write_shard(struct rp_image_set *s, struct rp_jpeg *j, struct rp_image_room *room, const char *dir,
                       long shard, long shards, struct rp_err *err)
{
    RP_BUF bytes = {0};
    for (int64_t i = shard * s->count / shards, end = (shard + 1) * s->count / shards; i < end; i++) {
        if (rp_interrupted())
            return rp_fail(err, RP_INTERRUPTED, "interrupted after %ld of %ld files", shard, shards);
        if (add_record(&bytes, s, j, room, i, err) < 0)
            return -1;
    }
    RP_FREE char *path = shard_path(dir, shard, shards);
    if (rp_mkdirs(dir, 0777, err) < 0)
        return -1;
    return rp_write_file(path, rp_buf_text(&bytes), bytes.size, 0666, err);
}

int rp_make_from_folder(const char *folder, const char *dir, int force, struct rp_folder_made *made, struct rp_err *err)
{
    const struct rp_data_opts o = {.image.threads = 1};
    struct rp_dataset *d = rp_data_format_image_folder.open(folder, NULL, 0, &o, err);
    struct rp_image_set *s = (struct rp_image_set *)d;
    struct rp_image_room room = {0};
    int64_t bytes = 0;
    int failed = 0;
    if (!d)
        return -1;
    for (int i = 0; i < s->files->n; i++)
        bytes += (int64_t)s->files->file[i].size;
    made->images = s->count;
    made->classes = rp_image_folder_classes(d);
    if (!made->shards)
        made->shards = (long)(bytes / RP_FOLDER_SHARD) + 1;
    if (made->shards > s->count)
        failed = rp_fail(err, RP_USAGE, "--shards %ld is out of range 1..%lld, the number of images", made->shards,
                         (long long)s->count);
    else if (!force)
        failed = refuse_shards(dir, made->shards, err);
    struct rp_jpeg *j = rp_jpeg_new();
    for (long i = 0; i < made->shards && !failed; i++)
        failed = write_shard(s, j, &room, dir, i, made->shards, err);
    rp_jpeg_free(j);
    free(room.p);
    rp_data_format_image_folder.close(d);
    return failed ? -1 : 0;
}

/* Samples of images by several threads: the bytes of one thread, with records that are damaged among them; also under
 * the thread sanitizer. */
#include "tests/unit/tap.h"

#include "data/dataset.h"
#include "data/synthetic/make.h"
#include "tests/unit/scratch.h"

enum { IMAGES = 24, SIZE = 16, ROW = SIZE * SIZE * 3, ROUNDS = 3 };

struct batch {
    uint8_t image[IMAGES][ROW];
    int32_t label[IMAGES];
};

static const char *write_images(void)
{
    struct rp_err err;
    struct rp_make_opts o = {.sequences = IMAGES};
    const struct rp_generator *g = rp_generator_find("images");
    RP_BUF file = {0};
    CHECK(rp_make_options(&o, g, &err) == 0 && rp_make_shard(&file, g, &o, 0, &err) == 0, "%s", err.msg);
    file.data[file.size / 2] ^= 1; /* one record has a wrong checksum */
    return put_file("images.tfrecord", file.data, file.size);
}

static void get_all(const char *path, int threads, struct batch *b, int64_t *skipped)
{
    static const struct rp_sample_field want[] = {{"image", RP_U8, ROW, 0}, {"label", RP_I32, 1, 8}};
    const struct rp_data_opts o = {.shuffle = 1, .image = {.crop = {.random = 1,
                                                      .image_size = SIZE, .short_side = SIZE, .area_min = 0.1,
                                                      .area_max = 1, .ratio_min = 0.5, .ratio_max = 2, .attempts = 3,
                                                      .flip = 0.5},
                                             .skip_damaged = 1, .threads = threads}};
    struct rp_err err = {0};
    struct rp_dataset *d = rp_data_format_find("imagenet_tfrecord")->open(path, want, 2, &o, &err);
    *skipped = -1;
    if (!CHECK(d, "%s", err.msg))
        return;
    for (int i = 0; i < ROUNDS; i++) {
        void *const column[] = {b[i].image, b[i].label};
        CHECK(d->format->get_batch(d, (int64_t)i * IMAGES, IMAGES, column, &err) == 0, "%s", err.msg);
    }
    *skipped = d->skipped;
    d->format->close(d);
}

TEST(the_number_of_threads_changes_nothing)
{
    static struct batch one[ROUNDS], many[ROUNDS];
    const char *path = write_images();
    int64_t skipped;
    get_all(path, 1, one, &skipped);
    CHECK(skipped == ROUNDS, "%lld", (long long)skipped);
    for (int threads = 2; threads < 9; threads *= 2) {
        memset(many, 0, sizeof many);
        get_all(path, threads, many, &skipped);
        CHECK(skipped == ROUNDS && memcmp(one, many, sizeof one) == 0, "%d threads, %lld skipped", threads,
              (long long)skipped);
    }
}

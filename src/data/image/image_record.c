#include "data/image/image_record.h"

#include "base/buf.h"

#include <string.h>

static int check_one(const struct rp_example_field *f, struct rp_err *err)
{
    if (f->found == RP_EXAMPLE_ABSENT)
        return rp_fail(err, RP_MALFORMED, "feature '%s': missing", f->name);
    if (f->found != f->want)
        return rp_fail(err, RP_MALFORMED, "feature '%s': %s, expected %s", f->name, rp_example_kind_name(f->found),
                       rp_example_kind_name(f->want));
    if (f->count != 1)
        return rp_fail(err, RP_MALFORMED, "feature '%s': %zu values, expected 1", f->name, f->count);
    return 0;
}

int rp_image_read_message(struct rp_tfrecord_set *records, int64_t record, const struct rp_image_keys *keys,
                          struct rp_image_room *room, struct rp_image_record *out, struct rp_err *err)
{
    enum { IMAGE, LABEL, NAME };
    struct rp_example_bytes image = {0}, name = {0};
    int64_t label = 0;
    struct rp_example_field field[] = {
        [IMAGE] = {.name = keys->image, .want = RP_EXAMPLE_BYTES, .out.bytes = &image, .cap = 1},
        [LABEL] = {.name = keys->label, .want = RP_EXAMPLE_INT64, .out.i64 = &label, .cap = 1},
        [NAME] = {.name = keys->name, .want = RP_EXAMPLE_BYTES, .out.bytes = &name, .cap = 1},
    };
    const unsigned char *data;
    size_t size;
    if (rp_tfrecord_set_record(records, record, &data, &size, err) < 0 ||
        keys->parse(data, size, field, keys->name ? 3 : 2, err) < 0 || check_one(&field[IMAGE], err) < 0 ||
        check_one(&field[LABEL], err) < 0)
        return -1;
    uint8_t *bytes = rp_image_room(room, image.n + 1);
    if (image.n)
        memcpy(bytes, image.p, image.n);
    out->bytes = bytes;
    out->size = image.n;
    out->label = label;
    if (field[NAME].found == RP_EXAMPLE_BYTES && field[NAME].count == 1)
        snprintf(out->name, sizeof out->name, "%.*s", (int)(name.n < sizeof out->name ? name.n : sizeof out->name),
                 (const char *)name.p);
    return 0;
}

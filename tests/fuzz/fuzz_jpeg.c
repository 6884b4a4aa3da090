/* Any bytes as a JPEG image: refused with one line, or decoded, and then every window has the bytes of the whole image,
 * where that is decoded without damage. The last byte chooses the window and the kind of upsampling. */
#include "data/image/jpeg.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#define PIXELS (1 << 18) /* larger ones cost time and show nothing else */

struct rows {
    uint8_t *at;
    size_t bytes;
    int n;
};

static void keep_row(void *arg, const uint8_t *rgb)
{
    struct rows *r = arg;
    memcpy(r->at + r->bytes * (size_t)r->n++, rgb, r->bytes);
}

/* The window's rows (free them), NULL if they were refused. */
static uint8_t *decode(struct rp_jpeg *j, const void *data, size_t size, const struct rp_image_window *w, int fancy)
{
    struct rp_jpeg_info info;
    struct rp_err err = {0};
    struct rows r = {malloc((size_t)w->width * (size_t)w->height * 3), (size_t)w->width * 3, 0};
    must(r.at != NULL);
    if (rp_jpeg_open(j, data, size, &info, &err) == 0 && rp_jpeg_rows(j, w, fancy, keep_row, &r, &err) == 0) {
        must(r.n == w->height);
        return r.at;
    }
    must_be_refusal(&err);
    must(err.code == RP_MALFORMED);
    free(r.at);
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct rp_jpeg *j;
    struct rp_jpeg_info info;
    struct rp_err err = {0};
    int turned = rp_jpeg_orientation(data, size);
    must(turned >= 1 && turned <= 8);
    if (size == 0 || size > 65536)
        return 0;
    if (!j)
        j = rp_jpeg_new();
    if (rp_jpeg_open(j, data, size, &info, &err) < 0) {
        must_be_refusal(&err);
        return 0;
    }
    must(info.width > 0 && info.height > 0 && (long long)info.width * info.height <= RP_IMAGE_PIXELS_MAX);
    if ((long long)info.width * info.height > PIXELS)
        return 0;
    unsigned choice = data[size - 1];
    struct rp_image_window all = {0, 0, info.width, info.height},
                           w = {info.width * (int)(choice & 7) / 8, info.height * (int)(choice >> 3 & 7) / 8, 0, 0};
    w.width = 1 + (info.width - w.x - 1) * (int)(choice >> 6 & 1);
    w.height = 1 + (info.height - w.y - 1) / 2;
    uint8_t *whole = decode(j, data, size, &all, (int)(choice >> 7)),
            *part = decode(j, data, size, &w, (int)(choice >> 7));
    for (int y = 0; whole && part && y < w.height; y++)
        must(memcmp(part + (size_t)y * (size_t)w.width * 3,
                    whole + ((size_t)(w.y + y) * (size_t)info.width + (size_t)w.x) * 3, (size_t)w.width * 3) == 0);
    must(!whole || part); /* what the window needs is a part of what the image needs */
    free(whole);
    free(part);
    return 0;
}

/* How images become samples: the keys of the recipe that the image formats read. {0}: the defaults of data.format. */
#pragma once

#include "data/image/crop.h"
#include "recipe/choices.h"

struct rp_image_opts {
    struct rp_crop_opts crop; /* image_size 0: 224 and the centre crop */
    enum rp_resize_filter filter;
    int fancy;
    int label_base;   /* 1 + data.label_base, 0: what the format's public writers use */
    int skip_damaged; /* the next record in file order replaces one that is damaged */
    int threads;      /* of the decoder; 0: as many as */
    int device_threads; /* the device has, or with 0 all CPUs that this process may use; at most 64 */
};

/* Every data format that is built in. */
#include "data/dataset.h"

#include <string.h>

const struct rp_data_format *const rp_data_formats[RP_DATA_FORMAT_COUNT + 1] = {
#define X(name) [RP_DATA_FORMAT_##name] = &rp_data_format_##name,
    RP_DATA_FORMATS(X)
#undef X
};

const struct rp_data_format *rp_data_format_find(const char *name)
{
    for (int i = 0; rp_data_formats[i]; i++)
        if (strcmp(rp_data_formats[i]->name, name) == 0)
            return rp_data_formats[i];
    return NULL;
}

const struct rp_data_format *rp_data_format_of(const struct rp_recipe *r)
{
    return rp_data_formats[r->data_format];
}

int rp_data_list(const struct rp_data_format *format, struct rp_files *files, const char *path, struct rp_err *err)
{
    return format->list ? format->list(files, path, err) : rp_files_open(files, path, format->in_name, err);
}

struct rp_data_opts rp_data_opts_of(const struct rp_recipe *r, int64_t step_samples)
{
    return (struct rp_data_opts){
        .shuffle = r->data_shuffle,
        .seed = (uint64_t)r->seed_data,
        .order = r->data_order,
        .samples = r->schedule_total_steps * (r->train_global_batch_size ? r->train_global_batch_size : step_samples),
        .split = r->data_split,
        .token_bytes = (int)r->data_token_bytes,
        .seq_length = r->task_seq_length,
        .image = {
            .crop = {
                .random = r->data_augment == RP_AUGMENT_crop_flip,
                .image_size = (int)r->task_image_size,
                .short_side = (int)r->data_short_side,
                .area_min = r->data_crop_area_min,
                .area_max = r->data_crop_area_max,
                .ratio_min = r->data_crop_ratio_min,
                .ratio_max = r->data_crop_ratio_max,
                .attempts = (int)r->data_crop_attempts,
                .law = (enum rp_crop_law)r->data_crop_law,
                .flip = r->data_flip,
                .seed = (uint64_t)r->seed_augment,
            },
            .filter = (enum rp_resize_filter)r->data_resize,
            .fancy = r->data_fancy_upsampling,
            .label_base = 1 + (int)r->data_label_base,
            .skip_damaged = r->data_skip_damaged,
            .threads = (int)r->data_threads,
            .device_threads = (int)r->run_threads,
        },
    };
}

int rp_data_get_batch(struct rp_dataset *d, const struct rp_sample_field *field, int fields, int64_t sample, int64_t n,
                      void *const *column, struct rp_err *err)
{
    void *row[RP_SAMPLE_FIELDS_MAX];
    if (d->format->get_batch)
        return d->format->get_batch(d, sample, n, column, err);
    for (int64_t b = 0; b < n; b++) {
        for (int k = 0; k < fields; k++)
            row[k] = (char *)column[k] + (size_t)(b * field[k].count) * rp_dtype_bytes(field[k].dtype);
        if (d->format->get(d, sample + b, row, err) < 0)
            return -1;
    }
    return 0;
}

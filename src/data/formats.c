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
    };
}

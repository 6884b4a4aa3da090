/* What can be refused before a device is opened. */
#include "base/buf.h"
#include "train/inner.h"

#include <stdlib.h>

static int read_first_sample(struct rp_dataset *d, const struct rp_sample_field *field, int fields, struct rp_err *err)
{
    void *row[RP_FIELDS_MAX] = {0};
    for (int k = 0; k < fields; k++)
        row[k] = rp_alloc((size_t)field[k].count * rp_dtype_bytes(field[k].dtype));
    int failed = d->format->get(d, 0, row, err) < 0;
    for (int k = 0; k < fields; k++)
        free(row[k]);
    return failed ? -1 : 0;
}

static struct rp_dataset *open_data(struct rp_sample_field *field, int *fields, const struct rp_recipe *r,
                                    int64_t batch, const char *path, struct rp_err *err)
{
    struct rp_data_opts opts = rp_data_opts_of(r, rp_recipe_micro_batches(r) * batch);
    struct rp_net *m = rp_net_new(r, batch);
    *fields = m->model->fields(m, field);
    rp_net_free(m);
    return rp_data_format_of(r)->open(path, field, *fields, &opts, err);
}

int rp_train_check_data(const struct rp_recipe *r, int64_t batch, const char *path, struct rp_err *err)
{
    struct rp_sample_field field[RP_FIELDS_MAX];
    int fields;
    struct rp_dataset *d = open_data(field, &fields, r, batch, path, err);
    if (!d)
        return -1;
    int failed = !d->format->working_bytes && read_first_sample(d, field, fields, err) < 0;
    d->format->close(d);
    return failed ? -1 : 0;
}

int rp_train_count_samples(int64_t *n, const struct rp_recipe *r, int64_t batch, const char *path, struct rp_err *err)
{
    struct rp_sample_field field[RP_FIELDS_MAX];
    int fields;
    struct rp_dataset *d = open_data(field, &fields, r, batch, path, err);
    if (!d)
        return -1;
    *n = d->format->count(d);
    d->format->close(d);
    return 0;
}

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

int rp_train_check_data(const struct rp_recipe *r, int64_t batch, const char *path, struct rp_err *err)
{
    const struct rp_data_format *format = rp_data_format_of(r);
    struct rp_sample_field field[RP_FIELDS_MAX];
    struct rp_data_opts opts = rp_data_opts_of(r, rp_recipe_micro_batches(r) * batch);
    struct rp_net *m = rp_net_new(r, batch);
    int fields = m->model->fields(m, field);
    rp_net_free(m);
    struct rp_dataset *d = format->open(path, field, fields, &opts, err);
    if (!d)
        return -1;
    int failed = !format->working_bytes && read_first_sample(d, field, fields, err) < 0;
    format->close(d);
    return failed ? -1 : 0;
}

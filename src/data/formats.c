/* Every data format that is built in. */
#include "data/dataset.h"

#include <string.h>

extern const struct rp_data_format rp_data_format_bert_tfrecord; /* bert_tfrecord.c */

const struct rp_data_format *const rp_data_formats[] = {&rp_data_format_bert_tfrecord, NULL};

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

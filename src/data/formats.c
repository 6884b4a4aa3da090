/* Every data format that is built in. */
#include "data/dataset.h"

#include <string.h>

#define X(name) extern const struct rp_data_format rp_data_format_##name;
RP_DATA_FORMATS(X)
#undef X

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

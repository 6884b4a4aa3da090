#include "workload/workload.h"

#include <string.h>

extern const struct rp_workload rp_workload_bert; /* bert.c */

const struct rp_workload *const rp_workloads[RP_MODEL_COUNT] = {[RP_MODEL_bert] = &rp_workload_bert};

const struct rp_workload *rp_workload_find(const char *name)
{
    for (int i = 0; i < RP_MODEL_COUNT; i++)
        if (rp_workloads[i] && !strcmp(rp_workloads[i]->model->name, name))
            return rp_workloads[i];
    return NULL;
}

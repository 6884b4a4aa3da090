#include "workload/workload.h"

#include <string.h>

extern const struct rp_workload rp_workload_bert; /* bert.c */

/* In the order of the choices of recipe key `workload`. */
const struct rp_workload *const rp_workloads[] = {&rp_workload_bert, NULL};

const struct rp_workload *rp_workload_find(const char *name)
{
    for (int i = 0; rp_workloads[i]; i++)
        if (!strcmp(rp_workloads[i]->model->name, name))
            return rp_workloads[i];
    return NULL;
}

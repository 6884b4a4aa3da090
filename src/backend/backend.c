#include "backend/backend.h"

#include <string.h>

extern const struct rp_backend rp_backend_cpu;  /* cpu/cpu.c */
extern const struct rp_backend rp_backend_cuda; /* in repro-gpu cuda/cuda.c, in repro worker/cuda.c, which asks repro-gpu */

#ifdef RP_GPU_WORKER
const struct rp_backend *const rp_backends[] = {&rp_backend_cuda, NULL};
#else
const struct rp_backend *const rp_backends[] = {&rp_backend_cuda, &rp_backend_cpu, NULL};
#endif

const struct rp_backend *rp_backend_find(const char *name)
{
    for (int i = 0; rp_backends[i]; i++)
        if (!strcmp(rp_backends[i]->name, name))
            return rp_backends[i];
    return NULL;
}

const char *rp_class_name(enum rp_class c)
{
    static const char *const names[] = {
#define X(id, text) [id] = text,
        RP_CLASSES(X)
#undef X
    };
    return (unsigned)c < RP_CLASS_COUNT ? names[c] : "?";
}

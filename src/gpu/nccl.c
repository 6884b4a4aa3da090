/* The NCCL that a training program would find here. */
#include "gpu/gpu.h"
#include "gpu/nccl_library.h"

#include <dlfcn.h>
#include <stdio.h>

#define SOURCE "ncclGetVersion"

json_t *rp_gpu_nccl(void)
{
    json_t *out = json_object();
    struct rp_gpu_library l;
    rp_gpu_load(&l, "libnccl.so.2");
    if (!l.handle) {
        rp_gpu_put_missing(out, "nccl_version", &l);
        return out;
    }
    int (*version)(int *) = (int (*)(int *))dlsym(l.handle, SOURCE);
    int n = 0, status = version ? version(&n) : -1;
    char text[64];
    if (status == 0 && n > 0) {
        rp_put_str(out, "nccl_version", rp_nccl_version_text(text, n), SOURCE);
        return out;
    }
    if (version)
        snprintf(text, sizeof text, "returned %d and the number %d", status, n);
    rp_put(out, "nccl_version", RP_STATE_ERROR, NULL, SOURCE, NULL,
           version ? text : "the library has no such function");
    return out;
}

/* The NCCL that a training program would find here. */
#include "gpu/gpu.h"

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
    /* 2.8.4 is 2804, 2.9.6 is 20906 */
    int major = n < 10000 ? n / 1000 : n / 10000, minor = n < 10000 ? n / 100 % 10 : n / 100 % 100;
    if (status == 0 && n > 0) {
        rp_put_str(out, "nccl_version", RP_FORMAT(text, "%d.%d.%d", major, minor, n % 100), SOURCE);
        return out;
    }
    if (version)
        snprintf(text, sizeof text, "returned %d and the number %d", status, n);
    rp_put(out, "nccl_version", RP_STATE_ERROR, NULL, SOURCE, NULL, version ? text : "the library has no such function");
    return out;
}

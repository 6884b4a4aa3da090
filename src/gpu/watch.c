/* The GPUs that a command can use: those that CUDA_VISIBLE_DEVICES leaves, in the environment that both inherit. */
#include "backend/cuda/driver.h"
#include "base/json.h"
#include "capture/value.h"
#include "gpu/gpu.h"

#include <stdlib.h>
#include <string.h>

/* By libcuda: -1 where it has none, or cannot be asked. */
static int list_by_cuda(json_t *list)
{
    struct rp_err ignored;
    int count = 0;
    const struct rp_driver *d = rp_driver_load(&ignored);
    if (!d || d->cuDeviceGetCount(&count) != CUDA_SUCCESS)
        return -1;
    for (int i = 0; i < count; i++) {
        char text[32];
        CUdevice device;
        if (d->cuDeviceGet(&device, i) == CUDA_SUCCESS &&
            d->cuDeviceGetPCIBusId(text, sizeof text, device) == CUDA_SUCCESS)
            json_array_append_new(list, json_string(text));
    }
    return 0;
}

/* Without CUDA the variable hides nothing but what it hides from everybody. */
static void list_by_nvml(json_t *list)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES"), *name;
    json_t *gpu;
    if (visible && (!*visible || strcmp(visible, "-1") == 0 || strcmp(visible, "NoDevFiles") == 0))
        return;
    RP_JSON *all = rp_gpu_nvml();
    json_object_foreach(json_object_get(all, "devices"), name, gpu)
        json_array_append_new(list, json_string(rp_text_or_empty(rp_known_text(gpu, "pci_address"))));
}

json_t *rp_gpu_visible(void)
{
    json_t *list = json_array();
    if (list_by_cuda(list) < 0)
        list_by_nvml(list);
    return list;
}

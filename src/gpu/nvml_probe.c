/* What NVML knows of this machine. The library stays initialised until the process ends: without persistence mode the
 * last client that leaves resets the devices, and the next probe would pay for waking them up again. */
#include "gpu/nvml.h"

#include <dlfcn.h>
#include <stdio.h>

#define DEVICES_MAX 256u
#define MIG_MAX 64u

static void fail_rows(const struct rp_nvml *lib, json_t *obj, const struct rp_nvml_row *rows, nvmlReturn_t rc,
                      const char *source)
{
    for (const struct rp_nvml_row *r = rows; r->field; r++)
        rp_nvml_put_failure(lib, obj, r->field, rc, source);
}

/* Numbers of MIG devices have holes: NOT_FOUND is one. */
static void put_mig(const struct rp_nvml *lib, json_t *out, nvmlDevice_t dev)
{
    static const char get_source[] = "nvmlDeviceGetMigDeviceHandleByIndex";
    nvmlReturn_t (*get)(nvmlDevice_t, unsigned, nvmlDevice_t *) =
        (nvmlReturn_t (*)(nvmlDevice_t, unsigned, nvmlDevice_t *))rp_nvml_symbol(lib, get_source);
    struct rp_nvml_answer max;
    const char *source;
    json_t *all = json_object();
    json_object_set_new(out, "mig_devices", all);
    nvmlReturn_t rc = rp_nvml_ask(lib, &(struct rp_nvml_subject){.dev = dev}, &rp_nvml_mig_count_row, &max, &source);
    if (rc != NVML_SUCCESS || max.n[0] == RP_NVML_NONE) {
        rp_nvml_put(lib, out, &rp_nvml_mig_count_row, rc, &max, source);
        return;
    }
    rc = get ? NVML_SUCCESS : NVML_ERROR_FUNCTION_NOT_FOUND;
    for (unsigned i = 0; get && i < max.n[0] && i < MIG_MAX; i++) {
        struct rp_nvml_subject mig = {0};
        char name[16];
        nvmlReturn_t one = get(dev, i, &mig.dev);
        if (one == NVML_SUCCESS && mig.dev) {
            snprintf(name, sizeof name, "mig%u", i);
            json_t *values = json_object();
            json_object_set_new(all, name, values);
            rp_nvml_put_rows(lib, values, &mig, rp_nvml_mig_rows);
        } else if (one != NVML_ERROR_NOT_FOUND) {
            rc = one == NVML_SUCCESS ? NVML_ERROR_UNKNOWN : one;
        }
    }
    if (rc == NVML_SUCCESS)
        rp_put_int(out, rp_nvml_mig_count_row.field, (int64_t)json_object_size(all), get_source, NULL);
    else
        rp_nvml_put_failure(lib, out, rp_nvml_mig_count_row.field, rc, get_source);
}

static void put_devices(const struct rp_nvml *lib, json_t *out)
{
    struct rp_nvml_answer a;
    const char *source;
    json_t *all = json_object();
    json_object_set_new(out, "devices", all);
    nvmlReturn_t rc = rp_nvml_ask(lib, &(struct rp_nvml_subject){0}, &rp_nvml_count_row, &a, &source);
    if (rc == NVML_SUCCESS && a.n[0] != RP_NVML_NONE && a.n[0] > DEVICES_MAX) {
        rp_put(out, "count", RP_STATE_ERROR, NULL, source, NULL, "more devices than any machine has");
        return;
    }
    rp_nvml_put(lib, out, &rp_nvml_count_row, rc, &a, source);
    unsigned n = rc == NVML_SUCCESS && a.n[0] != RP_NVML_NONE ? (unsigned)a.n[0] : 0;
    RP_FREE struct rp_nvml_device *d = rp_alloc((n ? n : 1) * sizeof *d);
    for (unsigned i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "gpu%u", i);
        d[i].values = json_object();
        json_object_set_new(all, name, d[i].values);
        d[i].rc = rp_nvml_device_of(lib, i, &d[i].dev, &source);
        if (d[i].rc != NVML_SUCCESS) {
            fail_rows(lib, d[i].values, rp_nvml_device_rows, d[i].rc, source);
            continue;
        }
        rp_nvml_put_rows(lib, d[i].values, &(struct rp_nvml_subject){.dev = d[i].dev}, rp_nvml_device_rows);
        put_mig(lib, d[i].values, d[i].dev);
        rp_nvml_put_links(lib, &d[i]);
    }
    rp_nvml_put_pairs(lib, d, n);
}

json_t *rp_gpu_nvml(void)
{
    json_t *out = json_object();
    struct rp_nvml lib;
    if (rp_nvml_load(&lib) < 0) {
        rp_gpu_put_missing(out, "nvml_library", &lib.so);
        for (const struct rp_nvml_row *r = rp_nvml_system_rows; r->field; r++)
            rp_gpu_put_missing(out, r->field, &lib.so);
        rp_gpu_put_missing(out, rp_nvml_count_row.field, &lib.so);
        return out;
    }
    const char *source;
    nvmlReturn_t rc = rp_nvml_init(&lib, &source);
    rp_nvml_function *f = rp_nvml_symbol(&lib, source);
    Dl_info info;
    if (f && dladdr((void *)f, &info) && info.dli_fname)
        rp_put_str(out, "nvml_library", info.dli_fname, lib.so.name);
    else
        rp_nvml_put_failure(&lib, out, "nvml_library", rc, source);
    if (rc == NVML_SUCCESS) {
        rp_nvml_put_rows(&lib, out, &(struct rp_nvml_subject){0}, rp_nvml_system_rows);
        put_devices(&lib, out);
    } else {
        fail_rows(&lib, out, rp_nvml_system_rows, rc, source);
        rp_nvml_put_failure(&lib, out, rp_nvml_count_row.field, rc, source);
    }
    return out;
}

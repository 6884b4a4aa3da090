/* NVIDIA's libraries, loaded at run time, and values that say why one is missing. */
#include "gpu/gpu.h"

#include "base/library.h"

#include <string.h>

void rp_gpu_load(struct rp_gpu_library *l, const char *name)
{
    *l = (struct rp_gpu_library){.name = name, .handle = rp_library_open(name)};
    if (l->handle)
        return;
    const char *why = dlerror();
    rp_fail(&l->err, RP_UNAVAILABLE, "%s", why ? why : "the loader does not say why");
    /* A library that is there and lacks another one reads "OTHER: cannot open shared object file: No such file or
     * directory". */
    int none = strncmp(l->err.msg, name, strlen(name)) == 0 && strstr(l->err.msg, "No such file");
    l->state = none ? RP_STATE_ABSENT : RP_STATE_ERROR;
}

void rp_gpu_put_missing(json_t *obj, const char *name, const struct rp_gpu_library *l)
{
    rp_put(obj, name, l->state, NULL, l->name, NULL, l->err.msg);
}

void rp_gpu_put_hidden(json_t *obj, const char *name, const char *value, const char *source)
{
    rp_put_str(obj, name, value, source);
    json_object_set_new(json_object_get(obj, name), "hide", json_true());
}

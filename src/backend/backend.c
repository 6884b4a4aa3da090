#include "backend/backend.h"

#include "base/json.h"

#include <stdio.h>
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

/* ---- devices in documents ---- */

json_t *rp_device_json(const struct rp_device_info *d)
{
    char capability[24];
    snprintf(capability, sizeof capability, "%d.%d", d->major, d->minor);
    if (strcmp(d->kind, "cpu") == 0)
        return json_pack("{s:s, s:s, s:s, s:i}", "kind", d->kind, "name", d->name, "isa", d->isa, "threads", d->threads);
    return json_pack("{s:s, s:s, s:i, s:s}", "kind", d->kind, "name", d->name, "index", d->index, "compute_capability", capability);
}

int rp_device_from_json(struct rp_device_info *out, const json_t *j)
{
    *out = (struct rp_device_info){.threads = (int)json_integer_value(json_object_get(j, "threads")),
                                   .index = (int)json_integer_value(json_object_get(j, "index"))};
    snprintf(out->kind, sizeof out->kind, "%s", rp_json_text_at(j, "kind"));
    snprintf(out->name, sizeof out->name, "%s", rp_json_text_at(j, "name"));
    snprintf(out->isa, sizeof out->isa, "%s", rp_json_text_at(j, "isa"));
    (void)!sscanf(rp_json_text_at(j, "compute_capability"), "%d.%d", &out->major, &out->minor);
    return *out->kind ? 0 : -1;
}

const char *rp_device_text(char text[RP_DEVICE_TEXT], const json_t *j)
{
    struct rp_device_info d;
    if (rp_device_from_json(&d, j) < 0)
        snprintf(text, RP_DEVICE_TEXT, "unknown");
    else if (strcmp(d.kind, "cpu") == 0)
        snprintf(text, RP_DEVICE_TEXT, "%s%s%s, %d thread%s", d.name, *d.name ? ", " : "", d.isa, d.threads, d.threads == 1 ? "" : "s");
    else
        snprintf(text, RP_DEVICE_TEXT, "%s, device %d, compute capability %d.%d", d.name, d.index, d.major, d.minor);
    return text;
}

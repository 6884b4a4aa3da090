#include "backend/backend.h"

#include <string.h>

const struct rp_backend *rp_backend_find(const struct rp_backend *const *list, const char *name)
{
    while (*list && strcmp((*list)->name, name) != 0)
        list++;
    return *list;
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

#include "base/embed.h"

#include <string.h>

const struct rp_embed *rp_embed_find(const char *name)
{
    const struct rp_embed *e = rp_embed_table;
    while (e->name && strcmp(e->name, name) != 0)
        e++;
    return e->name ? e : NULL;
}

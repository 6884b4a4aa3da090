#include "data/embedded.h"

#include "base/embed.h"

#include <string.h>

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Everything embedded that is no recipe text. */
static int is_archive(const char *name)
{
    return strstr(name, ".tar") || strstr(name, ".zip");
}

int rp_embedded_archive(const char *name, struct rp_archive_source *s)
{
    for (const struct rp_embed *e = rp_embed_table; e->name; e++)
        if (is_archive(e->name) && strcmp(base_name(e->name), name) == 0) {
            *s = (struct rp_archive_source){.name = base_name(e->name), .fd = -1, .data = e->data, .size = e->size};
            return 0;
        }
    return -1;
}

const char *rp_embedded_archive_name(int i)
{
    for (const struct rp_embed *e = rp_embed_table; e->name; e++)
        if (is_archive(e->name) && i-- == 0)
            return base_name(e->name);
    return NULL;
}

/* The script and the schemas, from the table of embedded files. */
#include "base/embed.h"
#include "bundle/bundle.h"
#include "bundle/schema.h"

const char *rp_bundle_script(size_t *size)
{
    const struct rp_embed *e = rp_embed_find("src/bundle/verify.sh");
    RP_BUG_IF(!e); /* a build without it is a defect */
    *size = e->size;
    return (const char *)e->data;
}

const char *rp_schema_text(const char *name, size_t *size)
{
    RP_FREE char *path = rp_asprintf("src/bundle/schemas/%s.schema.json", name);
    const struct rp_embed *e = rp_embed_find(path);
    if (!e)
        return NULL;
    *size = e->size;
    return (const char *)e->data;
}

/* The script and the schemas, from the table of embedded files. */
#include "base/embed.h"
#include "bundle/bundle.h"
#include "bundle/schema.h"

#include <stdio.h>
#include <string.h>

/* By the end of the name: the table's names are paths in the tree. A build without one of these files is a defect. */
static const struct rp_embed *embedded(const char *ending)
{
    size_t n = strlen(ending);
    for (const struct rp_embed *e = rp_embed_table; e->name; e++) {
        size_t m = strlen(e->name);
        if (m >= n && strcmp(e->name + m - n, ending) == 0)
            return e;
    }
    return NULL;
}

const char *rp_bundle_script(size_t *size)
{
    const struct rp_embed *e = embedded("bundle/verify.sh");
    RP_BUG_IF(!e);
    *size = e->size;
    return (const char *)e->data;
}

const char *rp_schema_text(const char *name, size_t *size)
{
    char ending[64];
    snprintf(ending, sizeof ending, "schemas/%s.schema.json", name);
    const struct rp_embed *e = embedded(ending);
    if (!e)
        return NULL;
    *size = e->size;
    return (const char *)e->data;
}

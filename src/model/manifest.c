#include "model/manifest.h"

#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t rp_manifest_add(struct rp_manifest *m, const char *name, enum rp_init init, long rows, long cols, int joined)
{
    if (m->n == m->cap) {
        m->cap = m->cap ? 2 * m->cap : 64;
        m->t = rp_realloc(m->t, (size_t)m->cap * sizeof *m->t);
    }
    struct rp_tensor *t = &m->t[m->n++];
    *t = (struct rp_tensor){.dims = cols ? 2 : 1, .shape = {rows, cols}, .init = init};
    snprintf(t->name, sizeof t->name, "%s", name);
    t->count = (size_t)rows * (size_t)(cols ? cols : 1);
    t->offset = joined ? m->floats : (m->floats + 15) & ~(size_t)15;
    m->floats = t->offset + t->count;
    m->parameters += t->count;
    return t->offset;
}

int rp_manifest_find(const struct rp_manifest *m, const char *name)
{
    for (int i = 0; i < m->n; i++)
        if (!strcmp(m->t[i].name, name))
            return i;
    return -1;
}

size_t rp_manifest_largest(const struct rp_manifest *m)
{
    size_t n = 0;
    for (int i = 0; i < m->n; i++)
        if (m->t[i].count > n)
            n = m->t[i].count;
    return n;
}

void rp_manifest_fini(struct rp_manifest *m)
{
    free(m->t);
    *m = (struct rp_manifest){0};
}

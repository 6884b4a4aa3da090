/* Names of results in layouts. */
#include "compare/layout.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

int rp_layout_names_add(struct rp_layout_names *names, const char *fmt, ...)
{
    char *text;
    RP_ASPRINTF_ARGS(text, fmt);
    for (int i = 0; i < names->n; i++)
        if (strcmp(names->name[i], text) == 0) {
            free(text);
            return i;
        }
    names->name = rp_realloc(names->name, (size_t)(names->n + 1) * sizeof *names->name);
    names->name[names->n] = text;
    return names->n++;
}

void rp_layout_names_join(struct rp_buf *out, const struct rp_layout_names *names, int most)
{
    for (int i = 0; i < names->n && i <= most; i++)
        rp_buf_printf(out, "%s%s", i ? ", " : "", i == most ? "..." : names->name[i]);
}

void rp_layout_names_fini(struct rp_layout_names *names)
{
    for (int i = 0; i < names->n; i++)
        free(names->name[i]);
    free(names->name);
    *names = (struct rp_layout_names){0};
}

char *rp_result_name(const struct rp_result *row)
{
    const char *name = row->framework ? row->framework : row->label ? row->label : RP_UNKNOWN;
    int variant = row->source.kind == RP_RESULT_PUBLISHED && row->source.note;
    return rp_asprintf("%s%s%s", name, variant ? ", " : "", variant ? row->source.note : "");
}

int rp_result_is(const char *property, const char *text)
{
    return property && strcasecmp(property, text) == 0;
}

const char *rp_result_precision(const struct rp_result *row)
{
    const int mixed = rp_result_is(row->precision, "fp16") || rp_result_is(row->precision, "bf16");
    return mixed ? "amp" : row->precision;
}

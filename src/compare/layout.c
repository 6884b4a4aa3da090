#include "compare/layout.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const struct rp_layout rp_layouts[] = {
#define LAYOUT(id, name, what) {name, what, rp_layout_##id},
#include "compare/layouts.def"
#undef LAYOUT
    {0},
};

int rp_layout_names_add(struct rp_layout_names *names, const char *fmt, ...)
{
    char *text;
    va_list ap;
    va_start(ap, fmt);
    RP_BUG_IF(vasprintf(&text, fmt, ap) < 0);
    va_end(ap);
    for (int i = 0; i < names->n; i++)
        if (strcmp(names->name[i], text) == 0) {
            free(text);
            return i;
        }
    names->name = rp_realloc(names->name, (size_t)(names->n + 1) * sizeof *names->name);
    names->name[names->n] = text;
    return names->n++;
}

void rp_layout_names_fini(struct rp_layout_names *names)
{
    for (int i = 0; i < names->n; i++)
        free(names->name[i]);
    free(names->name);
    *names = (struct rp_layout_names){0};
}

char *rp_row_name(const struct rp_row *row)
{
    const char *name = row->framework ? row->framework : row->label ? row->label : RP_UNKNOWN;
    int variant = row->source.kind == RP_ROW_PUBLISHED && row->source.note;
    return rp_asprintf("%s%s%s", name, variant ? ", " : "", variant ? row->source.note : "");
}

int rp_row_is(const char *property, const char *text)
{
    return property && strcasecmp(property, text) == 0;
}

void rp_layout_throughput_of(struct rp_doc *d, const struct rp_row *row, int n)
{
    char text[32], several[32] = "";
    if (n > 1)
        snprintf(several, sizeof several, " (first of %d)", n);
    if (!row || isnan(row->throughput))
        rp_doc_text(d, NULL, RP_NO_EVIDENCE);
    else
        rp_doc_cell(d, "%s%s%s", rp_row_figure(text, row->throughput, row->source.kind == RP_ROW_PUBLISHED),
                    row->source.kind == RP_ROW_BUNDLE && !row->source.signed_by ? " (NOT VERIFIED)" : "", several);
}

void rp_layout_throughput(struct rp_doc *d, const struct rp_row *row)
{
    rp_layout_throughput_of(d, row, 1);
}

void rp_layout_evidence(struct rp_doc *d, const struct rp_row *row)
{
    RP_BUF text = {0};
    if (row && row->source.file) {
        rp_buf_puts(&text, row->source.file);
        if (row->source.line > 0)
            rp_buf_printf(&text, ":%lld", (long long)row->source.line);
        for (int i = 0; i < row->links; i++)
            rp_buf_printf(&text, "%s %s", i ? "," : ":", row->link[i]);
    }
    rp_doc_text(d, rp_buf_text(&text), RP_NO_EVIDENCE);
}

void rp_layout_footnote(struct rp_doc *d, const struct rp_rows *rows)
{
    int trusted = 0, unknown_key = 0, unverified = 0;
    for (int i = 0; i < rows->n; i++) {
        const struct rp_row_source *s = &rows->row[i].source;
        trusted += s->key_known;
        unknown_key += s->signed_by && !s->key_known;
        unverified += s->kind == RP_ROW_BUNDLE && !s->signed_by;
    }
    rp_doc_line(d, "Of %d results %d are of bundles verified for this table with a trusted key, %d of bundles verified but signed by an "
                   "unknown key, %d of bundles that did NOT verify, %d published or imported and unsigned. This is a layout, not a "
                   "verdict: 'repro compare' without --layout says what may stand beside what.",
                rows->n, trusted, unknown_key, unverified, rows->n - trusted - unknown_key - unverified);
}

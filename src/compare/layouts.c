/* The list of layouts, and their first lines. */
#include "compare/layout.h"

#include "base/text.h"

#include <string.h>

const struct rp_layout rp_layouts[] = {
#define LAYOUT(id, put, heading, note) {#id, heading, note, RP_TABLE_##id, put},
#include "compare/layouts.def"
    {0},
};

/* How many of the results are verified, unsigned or not verified. */
static void put_footnote(struct rp_doc *d, const struct rp_rows *rows)
{
    int trusted = 0, unknown_key = 0, unverified = 0;
    for (int i = 0; i < rows->n; i++) {
        const struct rp_result_source *s = &rows->row[i].source;
        trusted += s->key_known;
        unknown_key += s->signed_by && !s->key_known;
        unverified += s->kind == RP_RESULT_BUNDLE && !s->signed_by;
    }
    rp_doc_line(d,
                "%d result%s: %d of bundles verified with a trusted key, %d with an unknown key, %d of bundles NOT "
                "verified, %d of unsigned tables and imported documents. A layout has no verdict: 'repro compare' "
                "without --layout reports which results are comparable.",
                rows->n, rp_s(rows->n), trusted, unknown_key, unverified,
                rows->n - trusted - unknown_key - unverified);
}

void rp_layout_write(struct rp_doc *d, const char *name, const struct rp_rows *rows)
{
    const struct rp_layout *l = rp_layouts;
    while (l->name && strcmp(l->name, name) != 0)
        l++;
    RP_BUG_IF(!l->name);
    rp_doc_heading(d, "%s", l->heading);
    put_footnote(d, rows);
    if (l->note)
        rp_doc_line(d, "%s", l->note);
    if (l->put) {
        l->put(d, rows);
        return;
    }
    rp_layout_begin(d, l->table, 0);
    for (int i = 0; i < rows->n; i++)
        rp_layout_cells(d, l->table, 0, &(struct rp_line){.row = &rows->row[i], .number = i + 1});
}

#include "compare/layout.h"

#include <math.h>
#include <inttypes.h>
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

/* ---- cells ---- */

void rp_layout_throughput(struct rp_doc *d, const struct rp_result *row, int n)
{
    char text[32], several[32] = "";
    if (n > 1)
        RP_FORMAT(several, " (first of %d)", n);
    if (!row || isnan(row->throughput))
        rp_doc_cell(d, RP_NO_EVIDENCE);
    else
        rp_doc_cell(d, "%s%s%s", rp_result_figure(text, row->throughput, row->source.kind == RP_RESULT_PUBLISHED),
                    row->source.kind == RP_RESULT_BUNDLE && !row->source.signed_by ? " (NOT VERIFIED)" : "", several);
}

static char *status_of(const struct rp_result *row)
{
    const struct rp_result_source *s = &row->source;
    if (s->kind != RP_RESULT_BUNDLE)
        return rp_asprintf("%s, unsigned", rp_result_kind_name(s->kind));
    if (!s->signed_by)
        return rp_strdup(s->verdict ? s->verdict : "");
    return rp_strdup(s->key_known ? "signed, consistent; speed claimed" : "consistent, key unknown; speed claimed");
}

static char *source_of(const struct rp_result *row, int with_links)
{
    RP_BUF text = {0};
    rp_buf_puts(&text, row->source.file ? row->source.file : "");
    if (row->source.line > 0)
        rp_buf_printf(&text, ":%" PRId64, row->source.line);
    for (int i = 0; i < row->links && with_links; i++)
        rp_buf_printf(&text, "%s %s", i ? "," : ":", row->link[i]);
    return rp_buf_take(&text);
}

static char *interval_of(const struct rp_result *row)
{
    char low[32], high[32];
    if (isnan(row->low) || isnan(row->high))
        return NULL;
    return rp_asprintf("%s to %s", rp_result_figure(low, row->low, 0), rp_result_figure(high, row->high, 0));
}

static char *rate_of(const struct rp_result *row)
{
    char text[32];
    return rp_asprintf("%s %s", rp_result_figure(text, row->throughput, row->source.kind == RP_RESULT_PUBLISHED),
                       row->unit ? row->unit : "");
}

static char *number_of(double x)
{
    return isnan(x) ? NULL : rp_asprintf("%.10g", x);
}

static char *tokens_of(const struct rp_result *row)
{
    double x = rp_result_tokens(row);
    return isnan(x) ? NULL : rp_asprintf("%.0f", x);
}

/* The text of a cell, NULL or "": unknown; free() it. */
static char *text_of(const struct rp_result *row, const char *word)
{
    char text[RP_RESULT_TEXT_MAX + 1];
#define IS(name) (strcmp(word, name) == 0)
    if (rp_result_get(text, sizeof text, row, word) == 0)
        return rp_strdup(text);
    return IS("name")       ? rp_result_name(row)
           : IS("hardware") ? rp_result_hardware(row)
           : IS("rate")     ? rate_of(row)
           : IS("unit")     ? rp_strdup(row->unit ? row->unit : "")
           : IS("interval") ? interval_of(row)
           : IS("status")   ? status_of(row)
           : IS("tokens")   ? tokens_of(row)
           : IS("value")    ? number_of(row->throughput)
           : IS("low")      ? number_of(row->low)
           : IS("high")     ? number_of(row->high)
                            : source_of(row, IS("evidence"));
#undef IS
}

void rp_result_cells(struct rp_doc *d, const struct rp_result *row, const char *words, const char *missing)
{
    for (size_t n; *words; words += n + (words[n] == ' ')) {
        n = strcspn(words, " ");
        RP_FREE char *word = rp_asprintf("%.*s", (int)n, words);
        RP_FREE char *text = strcmp(word, "throughput") == 0 ? NULL : text_of(row, word);
        if (strcmp(word, "throughput") == 0)
            rp_layout_throughput(d, row, 1);
        else
            rp_doc_text(d, text, missing);
    }
}

void rp_layout_footnote(struct rp_doc *d, const struct rp_rows *rows)
{
    int trusted = 0, unknown_key = 0, unverified = 0;
    for (int i = 0; i < rows->n; i++) {
        const struct rp_result_source *s = &rows->row[i].source;
        trusted += s->key_known;
        unknown_key += s->signed_by && !s->key_known;
        unverified += s->kind == RP_RESULT_BUNDLE && !s->signed_by;
    }
    rp_doc_line(d,
                "%d results: bundles verified with a trusted key %d, verified with an unknown key %d, that did NOT verify %d; published or "
                "imported, unsigned %d. A layout has no verdict: 'repro compare' without --layout "
                "reports which results are comparable.",
                rows->n, trusted, unknown_key, unverified, rows->n - trusted - unknown_key - unverified);
}

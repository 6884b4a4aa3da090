/* A comparison for people: the verdict, the results, why, by how much, and on what machines. */
#include "compare/compare.h"

#include "base/json.h"
#include "capture/compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *str(const json_t *j, const char *key)
{
    const char *s = json_string_value(json_object_get(j, key));
    return s ? s : "";
}

static double real(const json_t *j, const char *key)
{
    const json_t *v = json_object_get(j, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

static int whole(const json_t *j, const char *key)
{
    return (int)json_integer_value(json_object_get(j, key));
}

/* ---- results ---- */

static void interval_cell(struct rp_doc *d, double low, double high, const char *missing)
{
    char a[32], b[32];
    if (isnan(low) || isnan(high))
        rp_doc_cell(d, "%s", missing);
    else
        rp_doc_cell(d, "%s to %s", rp_row_figure(a, low, 0), rp_row_figure(b, high, 0));
}

static void property_cell(struct rp_doc *d, const struct rp_row *row, const char *key)
{
    char text[RP_ROW_TEXT_MAX + 1];
    rp_row_get(text, sizeof text, row, key);
    rp_doc_text(d, text, RP_UNKNOWN);
}

static void evidence_cell(struct rp_doc *d, const struct rp_row *row)
{
    const struct rp_row_source *s = &row->source;
    if (s->kind == RP_ROW_BUNDLE && s->signed_by && !s->key_known)
        rp_doc_cell(d, "verified, key unknown");
    else if (s->kind == RP_ROW_BUNDLE)
        rp_doc_text(d, s->verdict, RP_UNKNOWN);
    else
        rp_doc_cell(d, "%s, unsigned", rp_row_kind_name(row->source.kind));
}

static void source_cell(struct rp_doc *d, const struct rp_row *row)
{
    if (row->source.line > 0)
        rp_doc_cell(d, "%s:%lld", row->source.file ? row->source.file : "", (long long)row->source.line);
    else
        rp_doc_text(d, row->source.file, RP_UNKNOWN);
}

/* The framework, and which variant of it a report means. */
static void name_cell(struct rp_doc *d, const struct rp_row *row)
{
    const char *name = row->framework ? row->framework : row->label ? row->label : RP_UNKNOWN;
    int variant = row->source.kind == RP_ROW_PUBLISHED && row->source.note;
    rp_doc_cell(d, "%s%s%s", name, variant ? ", " : "", variant ? row->source.note : "");
}

static void results(struct rp_doc *d, const struct rp_rows *rows)
{
    static const char *const columns[] = {"framework", "model", "precision", "batch_per_device", "devices"};
    static const char *const names[] = {"framework", "model", "precision", "batch per device", "devices", "of what"};
    rp_doc_table(d);
    rp_doc_column(d, 1, "#");
    for (int i = 0; i < 6; i++)
        rp_doc_column(d, i == 3 || i == 4, "%s", names[i]);
    rp_doc_column(d, 1, "throughput");
    rp_doc_column(d, 0, "95 %% interval");
    rp_doc_column(d, 0, "evidence");
    rp_doc_column(d, 0, "source");
    for (int i = 0; i < rows->n; i++) {
        const struct rp_row *row = &rows->row[i];
        char text[40];
        rp_doc_cell(d, "%d", i + 1);
        name_cell(d, row);
        for (int c = 1; c < 5; c++)
            property_cell(d, row, columns[c]);
        RP_FREE char *hardware = rp_row_hardware(row);
        rp_doc_text(d, hardware, RP_UNKNOWN);
        rp_doc_cell(d, "%s %s", rp_row_figure(text, row->throughput, row->source.kind == RP_ROW_PUBLISHED), row->unit ? row->unit : "");
        interval_cell(d, row->low, row->high, RP_UNKNOWN);
        evidence_cell(d, row);
        source_cell(d, row);
    }
}

/* ---- pairs ---- */

/* "batch per device, data and 3 more" */
static void names_cell(struct rp_doc *d, const json_t *pair)
{
    RP_BUF text = {0};
    const json_t *list = json_object_get(pair, "confounders");
    size_t n = json_array_size(list);
    for (size_t i = 0; i < n; i++)
        rp_buf_printf(&text, "%s%s", i ? ", " : "", str(json_array_get(list, i), "name"));
    rp_doc_text(d, rp_buf_text(&text), "none");
}

static void pairs(struct rp_doc *d, const json_t *list)
{
    rp_doc_table(d);
    rp_doc_column(d, 1, "#");
    rp_doc_column(d, 0, "against 1");
    rp_doc_column(d, 1, "ratio");
    rp_doc_column(d, 0, "95 %% interval");
    rp_doc_column(d, 1, "per device");
    rp_doc_column(d, 0, "confounders");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *p = json_array_get(list, i), *r = json_object_get(p, "ratio");
        RP_FREE char *none = rp_asprintf("none: %s", *str(r, "no_interval") ? str(r, "no_interval") : str(p, "no_ratio"));
        rp_doc_cell(d, "%d", whole(p, "b") + 1);
        rp_doc_cell(d, "%s", str(p, "verdict"));
        rp_doc_cell(d, r ? "%.4gx" : "-", real(r, "value"));
        interval_cell(d, real(r, "low"), real(r, "high"), none);
        rp_doc_cell(d, isnan(real(r, "per_device")) ? "-" : "%.4gx", real(r, "per_device"));
        names_cell(d, p);
    }
}

/* ---- why ---- */

/* A confounder with the results in which it is the same. */
struct cause {
    const json_t *c;
    struct rp_buf where; /* "2-5, 7" */
    int first, last;     /* of the range that is open */
};

static int is_same(const json_t *a, const json_t *b)
{
    return strcmp(str(a, "key"), str(b, "key")) == 0 && strcmp(str(a, "state"), str(b, "state")) == 0 &&
        strcmp(str(a, "a"), str(b, "a")) == 0 && strcmp(str(a, "b"), str(b, "b")) == 0;
}

static void close_range(struct cause *c)
{
    if (c->first == c->last)
        rp_buf_printf(&c->where, "%s%d", c->where.size ? ", " : "", c->first);
    else
        rp_buf_printf(&c->where, "%s%d-%d", c->where.size ? ", " : "", c->first, c->last);
}

/* Those of one property stand together. */
static void note_cause(struct cause **list, int *n, const json_t *c, int result)
{
    int place = *n;
    for (int i = 0; i < *n; i++) {
        struct cause *old = &(*list)[i];
        if (strcmp(str(old->c, "key"), str(c, "key")) == 0)
            place = i + 1;
        if (!is_same(old->c, c))
            continue;
        if (old->last != result - 1) {
            close_range(old);
            old->first = result;
        }
        old->last = result;
        return;
    }
    *list = rp_realloc(*list, (size_t)(*n + 1) * sizeof **list);
    memmove(*list + place + 1, *list + place, (size_t)(*n - place) * sizeof **list);
    (*list)[place] = (struct cause){.c = c, .first = result, .last = result};
    ++*n;
}

static void confounders(struct rp_doc *d, const json_t *list)
{
    struct cause *causes = NULL;
    int n = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *p = json_array_get(list, i), *c = json_object_get(p, "confounders");
        for (size_t k = 0; k < json_array_size(c); k++)
            note_cause(&causes, &n, json_array_get(c, k), whole(p, "b") + 1);
    }
    if (n) {
        rp_doc_table(d);
        rp_doc_column(d, 0, "confounder");
        rp_doc_column(d, 0, "of");
        rp_doc_column(d, 0, "result 1");
        rp_doc_column(d, 0, "the other");
        rp_doc_column(d, 0, "results");
        rp_doc_column(d, 0, "why it matters");
    }
    for (int i = 0; i < n; i++) {
        const json_t *c = causes[i].c;
        close_range(&causes[i]);
        rp_doc_cell(d, "%s", str(c, "name"));
        rp_doc_cell(d, "%s", str(c, "kind"));
        rp_doc_text(d, str(c, "a"), RP_UNKNOWN);
        rp_doc_text(d, str(c, "b"), RP_UNKNOWN);
        rp_doc_cell(d, "%s", rp_buf_text(&causes[i].where));
        rp_doc_cell(d, "%s", str(c, "why"));
        rp_buf_fini(&causes[i].where);
    }
    free(causes);
}

/* ---- scaling and machines ---- */

static void scaling(struct rp_doc *d, const struct rp_rows *rows, const json_t *list)
{
    if (!json_array_size(list))
        return;
    rp_doc_heading(d, "Speed-up and efficiency");
    rp_doc_table(d);
    rp_doc_column(d, 1, "#");
    rp_doc_column(d, 0, "framework");
    rp_doc_column(d, 1, "devices");
    rp_doc_column(d, 1, "throughput");
    rp_doc_column(d, 1, "speed-up");
    rp_doc_column(d, 1, "against #");
    rp_doc_column(d, 1, "efficiency");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *s = json_array_get(list, i);
        const struct rp_row *row = &rows->row[whole(s, "row")];
        char text[40];
        rp_doc_cell(d, "%d", whole(s, "row") + 1);
        name_cell(d, row);
        rp_doc_cell(d, "%lld", (long long)row->devices);
        rp_doc_cell(d, "%s", rp_row_figure(text, row->throughput, row->source.kind == RP_ROW_PUBLISHED));
        rp_doc_cell(d, "%.2f", real(s, "speedup"));
        rp_doc_cell(d, "%d", whole(s, "base") + 1);
        rp_doc_cell(d, "%.1f %%", 100 * real(s, "efficiency"));
    }
}

/* "only here: avx512_bf16 amx_tile" */
static void show_words(struct rp_buf *out, const json_t *words)
{
    for (size_t i = 0; i < json_array_size(words); i++) {
        const char *word = json_string_value(json_array_get(words, i));
        rp_buf_printf(out, "%s%s", i ? " " : "only here: ", word ? word : "");
    }
    if (json_array_size(words) == 0)
        rp_buf_puts(out, "nothing that the other has not");
}

static void side_cell(struct rp_doc *d, const json_t *side, const json_t *beside)
{
    RP_BUF text = {0};
    const json_t *value = json_object_get(side, "value"), *other = json_object_get(beside, "value");
    RP_JSON *words = json_is_string(json_array_get(value, 0)) ? rp_capture_only_here(value, other) : NULL;
    if (words)
        show_words(&text, words);
    else if (json_is_string(value))
        rp_buf_puts(&text, json_string_value(value));
    else if (value)
        rp_json_write_line(&text, value);
    const char *unit = str(side, "unit"), *state = str(side, "state");
    if (text.size && text.data[text.size - 1] == '\n')
        text.data[--text.size] = 0;
    if (!value || json_is_null(value))
        rp_doc_text(d, state, "not there");
    else
        rp_doc_cell(d, "%s%s%s", rp_buf_text(&text), *unit ? " " : "", unit);
}

static void machines(struct rp_doc *d, const json_t *list)
{
    int begun = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *p = json_array_get(list, i), *important = json_object_get(json_object_get(p, "environment"), "important");
        for (size_t k = 0; k < json_array_size(important); k++) {
            const json_t *one = json_array_get(important, k);
            if (!begun++) {
                rp_doc_heading(d, "What differs between the machines, by its likely effect");
                rp_doc_table(d);
                rp_doc_column(d, 1, "#");
                rp_doc_column(d, 0, "effect");
                rp_doc_column(d, 0, "field");
                rp_doc_column(d, 0, "result 1");
                rp_doc_column(d, 0, "the other");
            }
            rp_doc_cell(d, "%d", whole(p, "b") + 1);
            rp_doc_cell(d, "%s", str(one, "impact"));
            rp_doc_cell(d, "%s", str(one, "field"));
            side_cell(d, json_object_get(one, "a"), json_object_get(one, "b"));
            side_cell(d, json_object_get(one, "b"), json_object_get(one, "a"));
        }
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *p = json_array_get(list, i), *e = json_object_get(p, "environment");
        if (e && json_array_size(list) <= 10)
            rp_doc_line(d, "%d against 1: %zu values of high or medium effect differ, %d others; %d could not be compared. 'repro capture "
                           "diff' lists all.",
                        whole(p, "b") + 1, json_array_size(json_object_get(e, "important")) + (size_t)whole(e, "more"), whole(e, "other"),
                        whole(e, "not_compared"));
    }
}

/* ---- all ---- */

static void headline(struct rp_doc *d, const json_t *c)
{
    int count[3] = {0};
    const json_t *list = json_object_get(c, "pairs");
    for (size_t i = 0; i < json_array_size(list); i++)
        for (int v = 0; v < 3; v++)
            count[v] += strcmp(str(json_array_get(list, i), "verdict"), rp_comparable_text((enum rp_comparable)v)) == 0;
    if (json_array_size(list) == 1)
        rp_doc_heading(d, "%s", str(c, "verdict"));
    else
        rp_doc_heading(d, "%s (%zu results against the first: %d comparable, %d with reservations, %d not)", str(c, "verdict"),
                       json_array_size(list), count[0], count[1], count[2]);
}

void rp_compare_show(struct rp_doc *out, const struct rp_rows *rows, const json_t *comparison)
{
    const json_t *list = json_object_get(comparison, "pairs"), *notes = json_object_get(comparison, "notes");
    headline(out, comparison);
    if (whole(comparison, "left_out"))
        rp_doc_line(out, "%d results of other models left out (--all shows them)", whole(comparison, "left_out"));
    results(out, rows);
    pairs(out, list);
    confounders(out, list);
    scaling(out, rows, json_object_get(comparison, "scaling"));
    machines(out, list);
    if (json_array_size(notes))
        rp_doc_heading(out, "Notes");
    for (size_t i = 0; i < json_array_size(notes); i++)
        rp_doc_line(out, "%s", json_string_value(json_array_get(notes, i)));
}

/* ---- one line per result, for programs that read no JSON ---- */

static void number_cell(struct rp_doc *d, double x)
{
    rp_doc_cell(d, isnan(x) ? "" : "%.10g", x);
}

void rp_compare_flat(struct rp_doc *out, const struct rp_rows *rows, const json_t *comparison)
{
    static const char *const properties[] = {"model", "precision", "batch_per_device", "nodes", "devices", "device_model", "threads",
                                             "isa"};
    enum { PROPERTIES = sizeof properties / sizeof *properties };
    static const char *const names[] = {"throughput", "unit", "low", "high", "evidence", "source", "verdict", "ratio", "ratio_low",
                                        "ratio_high", "confounders"};
    char text[RP_ROW_TEXT_MAX + 1];
    rp_doc_table(out);
    rp_doc_column(out, 1, "result");
    rp_doc_column(out, 0, "name");
    for (int i = 0; i < PROPERTIES; i++)
        rp_doc_column(out, 0, "%s", properties[i]);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        rp_doc_column(out, 0, "%s", names[i]);
    for (int i = 0; i < rows->n; i++) {
        const struct rp_row *row = &rows->row[i];
        const json_t *p = i ? json_array_get(json_object_get(comparison, "pairs"), (size_t)i - 1) : NULL, *r = json_object_get(p, "ratio");
        rp_doc_cell(out, "%d", i + 1);
        name_cell(out, row);
        for (int k = 0; k < PROPERTIES; k++) {
            rp_row_get(text, sizeof text, row, properties[k]);
            rp_doc_cell(out, "%s", text);
        }
        number_cell(out, row->throughput);
        rp_doc_text(out, row->unit, "");
        number_cell(out, row->low);
        number_cell(out, row->high);
        evidence_cell(out, row);
        source_cell(out, row);
        rp_doc_cell(out, "%s", p ? str(p, "verdict") : "");
        number_cell(out, real(r, "value"));
        number_cell(out, real(r, "low"));
        number_cell(out, real(r, "high"));
        if (p)
            names_cell(out, p);
        else
            rp_doc_text(out, NULL, "");
    }
}

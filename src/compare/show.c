/* A comparison for people: the verdict, the results, the confounders, the ratios, and the machines. */
#include "compare/compare.h"

#include "base/json.h"
#include "base/text.h"
#include "capture/env_diff.h"
#include "compare/layout.h"
#include "report/figure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void put_results(struct rp_doc *d, const struct rp_rows *rows)
{
    int tokens = 0;
    for (int i = 0; i < rows->n; i++)
        tokens |= !isnan(rp_result_tokens(&rows->row[i]));
    rp_layout_begin(d, RP_TABLE_results, tokens);
    for (int i = 0; i < rows->n; i++)
        rp_layout_cells(d, RP_TABLE_results, tokens, &(struct rp_line){.row = &rows->row[i], .number = i + 1});
}

static void put_pairs(struct rp_doc *d, const struct rp_rows *rows, const json_t *list)
{
    rp_layout_begin(d, RP_TABLE_pairs, 0);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *p = json_array_get(list, i);
        const int row = (int)rp_json_integer_at(p, "b");
        rp_layout_cells(d, RP_TABLE_pairs, 0, &(struct rp_line){.row = &rows->row[row], .entry = p, .number = row + 1});
    }
}

/* ---- confounders ---- */

/* A confounder and the results that it has the same values for. */
struct cause {
    const json_t *c;
    struct rp_buf where; /* "2-5, 7" */
    int first, last;     /* of the current range */
};

static int is_same(const json_t *a, const json_t *b)
{
    static const char *const parts[] = {"key", "state", "a", "b"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcmp(rp_json_text_at(a, parts[i]), rp_json_text_at(b, parts[i])) != 0)
            return 0;
    return 1;
}

static void close_range(struct cause *c)
{
    if (c->first == c->last)
        rp_buf_printf(&c->where, "%s%d", c->where.size ? ", " : "", c->first);
    else
        rp_buf_printf(&c->where, "%s%d-%d", c->where.size ? ", " : "", c->first, c->last);
}

/* Adds a confounder of a result; those of one property are kept together. */
static void add_cause(struct cause **list, int *n, const json_t *c, int result)
{
    int place = *n;
    for (int i = 0; i < *n; i++) {
        struct cause *old = &(*list)[i];
        if (strcmp(rp_json_text_at(old->c, "key"), rp_json_text_at(c, "key")) == 0)
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

static void put_confounders(struct rp_doc *d, const json_t *list)
{
    struct cause *causes = NULL;
    int n = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *p = json_array_get(list, i), *c = json_object_get(p, "confounders");
        for (size_t k = 0; k < json_array_size(c); k++)
            add_cause(&causes, &n, json_array_get(c, k), (int)rp_json_integer_at(p, "b") + 1);
    }
    if (n)
        rp_doc_table(d, "confounder|kind|result 1|the other|results|why it matters");
    for (int i = 0; i < n; i++) {
        const json_t *c = causes[i].c;
        close_range(&causes[i]);
        rp_doc_cell(d, "%s", rp_json_text_at(c, "name"));
        rp_doc_cell(d, "%s", rp_json_text_at(c, "kind"));
        rp_doc_text(d, rp_json_text_at(c, "a"), RP_UNKNOWN);
        rp_doc_text(d, rp_json_text_at(c, "b"), RP_UNKNOWN);
        rp_doc_cell(d, "%s", rp_buf_text(&causes[i].where));
        rp_doc_cell(d, "%s", rp_json_text_at(c, "why"));
        rp_buf_fini(&causes[i].where);
    }
    free(causes);
}

/* ---- scaling and machines ---- */

static void put_scaling(struct rp_doc *d, const struct rp_rows *rows, const json_t *list)
{
    if (!json_array_size(list))
        return;
    rp_doc_heading(d, "Speed-up and efficiency");
    rp_scaling_table(d, rows, list);
}

/* A value of one machine; of a list only what the other one lacks: "only here: avx512_bf16 amx_tile". */
static void put_side(struct rp_doc *d, const json_t *side, const json_t *other)
{
    RP_BUF text = {0};
    const json_t *value = json_object_get(side, "value");
    RP_JSON *words = json_is_string(json_array_get(value, 0)) ? rp_capture_only_here(value, json_object_get(other, "value")) : NULL;
    const char *unit = rp_json_text_at(side, "unit");
    if (words && !json_array_size(words))
        rp_buf_puts(&text, "nothing that the other lacks");
    for (size_t i = 0; i < json_array_size(words); i++)
        rp_buf_printf(&text, "%s%s", i ? " " : "only here: ", rp_json_text_at(json_array_get(words, i), ""));
    if (!words && value)
        rp_json_write_plain(&text, value);
    if (!value || json_is_null(value))
        rp_doc_text(d, rp_json_text_at(side, "state"), "absent");
    else
        rp_doc_cell(d, "%s%s%s", rp_buf_text(&text), *unit ? " " : "", unit);
}

static void put_machines(struct rp_doc *d, const json_t *list)
{
    int begun = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *p = json_array_get(list, i), *important = rp_json_at(p, "environment/important");
        for (size_t k = 0; k < json_array_size(important); k++) {
            const json_t *one = json_array_get(important, k);
            if (!begun++) {
                rp_doc_heading(d, "Differences between the machines, by their likely effect");
                rp_doc_table(d, "##|effect|field|result 1|the other");
            }
            rp_doc_cell(d, "%lld", rp_json_integer_at(p, "b") + 1);
            rp_doc_cell(d, "%s", rp_json_text_at(one, "impact"));
            rp_doc_cell(d, "%s", rp_json_text_at(one, "field"));
            put_side(d, json_object_get(one, "a"), json_object_get(one, "b"));
            put_side(d, json_object_get(one, "b"), json_object_get(one, "a"));
        }
    }
    for (size_t i = 0; i < json_array_size(list) && json_array_size(list) <= 10; i++) {
        const json_t *p = json_array_get(list, i), *e = json_object_get(p, "environment");
        if (e)
            rp_doc_line(
                d,
                "%lld against 1: %zu values of high or medium effect differ, %lld others; %lld could not be compared. 'repro capture "
                "diff' lists all.",
                rp_json_integer_at(p, "b") + 1, json_array_size(json_object_get(e, "important")) + (size_t)rp_json_integer_at(e, "more"),
                rp_json_integer_at(e, "other"), rp_json_integer_at(e, "not_compared"));
    }
}

/* ---- facts ---- */

static void show_value(struct rp_buf *out, const json_t *value, const char *unit)
{
    const int is_bytes = strcmp(unit, "B") == 0;
    if (rp_form(out, value, json_is_object(value) ? "h" : is_bytes ? "b" : "t") < 0)
        rp_buf_puts(out, RP_UNKNOWN);
    else if (*unit && !is_bytes)
        rp_buf_printf(out, " %s", unit);
}

/* Values that look equal in these digits are left to --json. */
static void put_facts(struct rp_doc *d, const json_t *list)
{
    int begun = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *p = json_array_get(list, i), *facts = json_object_get(p, "facts");
        for (size_t k = 0; k < json_array_size(facts); k++) {
            const json_t *one = json_array_get(facts, k);
            RP_BUF first = {0}, other = {0};
            show_value(&first, json_object_get(one, "a"), rp_json_text_at(one, "unit"));
            show_value(&other, json_object_get(one, "b"), rp_json_text_at(one, "unit"));
            if (rp_buf_is(&other, first.data, first.size))
                continue;
            if (!begun++) {
                rp_doc_title(d, "Facts that differ");
                rp_doc_table(d, "##|fact|result 1|the other");
            }
            rp_doc_cell(d, "%lld", rp_json_integer_at(p, "b") + 1);
            rp_doc_cell(d, "%s", rp_json_text_at(one, "name"));
            rp_doc_text(d, rp_buf_text(&first), RP_UNKNOWN);
            rp_doc_text(d, rp_buf_text(&other), RP_UNKNOWN);
        }
    }
}

/* ---- the whole comparison ---- */

static void put_headline(struct rp_doc *d, const json_t *c)
{
    int count[3] = {0};
    const json_t *list = json_object_get(c, "pairs");
    size_t n = json_array_size(list);
    for (size_t i = 0; i < n; i++)
        for (int v = 0; v < 3; v++)
            count[v] += strcmp(rp_json_text_at(json_array_get(list, i), "verdict"), rp_comparable_text((enum rp_comparable)v)) == 0;
    if (n == 1)
        rp_doc_heading(d, "%s", rp_json_text_at(c, "verdict"));
    else
        rp_doc_heading(d, "%s (%zu results against the first: %d comparable, %d with reservations, %d not)", rp_json_text_at(c, "verdict"),
                       n, count[0], count[1], count[2]);
}

void rp_compare_show(struct rp_doc *out, const struct rp_rows *rows, const json_t *comparison)
{
    const json_t *list = json_object_get(comparison, "pairs"), *notes = json_object_get(comparison, "notes");
    put_headline(out, comparison);
    if (rp_json_integer_at(comparison, "left_out"))
        rp_doc_line(out, "%lld result%s of other models left out (--all shows them)", rp_json_integer_at(comparison, "left_out"),
                    rp_s(rp_json_integer_at(comparison, "left_out")));
    put_results(out, rows);
    put_pairs(out, rows, list);
    put_confounders(out, list);
    put_facts(out, list);
    put_scaling(out, rows, json_object_get(comparison, "scaling"));
    put_machines(out, list);
    if (json_array_size(notes))
        rp_doc_heading(out, "Notes");
    for (size_t i = 0; i < json_array_size(notes); i++)
        rp_doc_line(out, "%s", rp_json_text_at(json_array_get(notes, i), ""));
}

/* ---- one line per result, for programs that do not read JSON ---- */

/* What a comparison has about result i: its pair, and its place in a series. */
static json_t *entry_of(const json_t *comparison, int i)
{
    const json_t *scaling = json_object_get(comparison, "scaling");
    json_t *entry = json_object();
    if (i)
        json_object_update(entry, json_array_get(json_object_get(comparison, "pairs"), (size_t)i - 1));
    for (size_t k = 0; k < json_array_size(scaling); k++)
        if (rp_json_integer_at(json_array_get(scaling, k), "row") == i)
            json_object_update(entry, json_array_get(scaling, k));
    return entry;
}

void rp_compare_flat(struct rp_doc *out, const struct rp_rows *rows, const json_t *comparison)
{
    rp_layout_begin(out, RP_TABLE_flat, 0);
    for (int i = 0; i < rows->n; i++) {
        RP_JSON *entry = entry_of(comparison, i);
        rp_layout_cells(out, RP_TABLE_flat, 0, &(struct rp_line){.row = &rows->row[i], .entry = entry, .number = i + 1});
    }
}

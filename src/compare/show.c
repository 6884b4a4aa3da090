/* A comparison for people: the verdict, the results, the confounders, the ratios, and the machines. */
#include "compare/compare.h"

#include "base/json.h"
#include "base/text.h"
#include "capture/env_diff.h"
#include "capture/value.h"
#include "compare/layout.h"
#include "report/figure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PAIRS_SHOWN 20   /* results against the first, without --why */
#define SCALING_SHOWN 20 /* lines of a series, without --why: more are the publishers' own */

/* What columns show of a pair. */
static json_t *pair_json(const struct rp_pair *pair)
{
    struct rp_pair brief = *pair;
    brief.facts_n = brief.figures_n = 0;
    brief.environment = NULL;
    return rp_object_json(&brief, &rp_type_pair);
}

/* Shows the first result, then at most `most` others in the order of the pairs. */
static void put_results(struct rp_doc *d, const struct rp_rows *rows, const struct rp_comparison *c, int64_t most)
{
    const int n = (int)(c->pairs_n < most ? c->pairs_n : most) + 1;
    RP_FREE struct rp_line *line = rp_alloc((size_t)n * sizeof *line);
    RP_FREE json_t **entry = rp_alloc((size_t)n * sizeof *entry);
    line[0] = (struct rp_line){.row = rows->row, .number = 1};
    for (int i = 1; i < n; i++) {
        const int64_t row = c->pairs[i - 1].b;
        entry[i] = pair_json(&c->pairs[i - 1]);
        line[i] = (struct rp_line){.row = &rows->row[row], .entry = entry[i], .number = row + 1};
    }
    rp_layout_varying(d, RP_TABLE_results, line, n);
    for (int i = 1; i < n; i++)
        json_decref(entry[i]);
}

/* ---- confounders ---- */

/* A confounder and the results that it has the same values for. */
struct cause {
    const struct rp_confounding *c;
    struct rp_buf where; /* "2-5, 7" */
    int first, last;     /* of the current range */
};

static int is_same(const struct rp_confounding *a, const struct rp_confounding *b)
{
    return strcmp(a->key, b->key) == 0 && strcmp(a->state, b->state) == 0 &&
           (rp_same_text(a->a, b->a) || a->a == b->a) && (rp_same_text(a->b, b->b) || a->b == b->b);
}

static void close_range(struct cause *c)
{
    if (c->first == c->last)
        rp_buf_printf(&c->where, "%s%d", c->where.size ? ", " : "", c->first);
    else
        rp_buf_printf(&c->where, "%s%d-%d", c->where.size ? ", " : "", c->first, c->last);
}

/* Adds a confounder of a result; those of one property are kept together. */
static void add_cause(struct cause **list, int *n, const struct rp_confounding *c, int result)
{
    int place = *n;
    for (int i = 0; i < *n; i++) {
        struct cause *old = &(*list)[i];
        if (strcmp(old->c->key, c->key) == 0)
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

/* Those of which a value is known; or those of which none is, without columns for them: a table that is too wide for
 * the page is split, and would list each twice. */
static void put_causes(struct rp_doc *d, const struct cause *causes, int n, int unknown, int many)
{
    static const char *const heads[2][2] = {
        {"confounder|effect|kind|result 1|the other|why it matters",
         "confounder|effect|kind|result 1|the other|results|why it matters"},
        {"unknown in both|effect|kind|why it matters", "unknown in both|effect|kind|results|why it matters"}};
    int begun = 0;
    for (int i = 0; i < n; i++) {
        const struct rp_confounding *one = causes[i].c;
        if ((!one->a && !one->b) != unknown)
            continue;
        if (!begun++)
            rp_doc_table(d, heads[unknown][many]);
        rp_doc_cell(d, "%s", one->name);
        rp_doc_cell(d, "%s", one->effect);
        rp_doc_cell(d, "%s", one->kind);
        if (!unknown) {
            rp_doc_text(d, one->a, RP_UNKNOWN);
            rp_doc_text(d, one->b, RP_UNKNOWN);
        }
        if (many)
            rp_doc_cell(d, "%s", rp_buf_text(&causes[i].where));
        rp_doc_cell(d, "%s", one->why);
    }
}

static void put_confounders(struct rp_doc *d, const struct rp_comparison *c)
{
    struct cause *causes = NULL;
    int n = 0;
    for (int64_t i = 0; i < c->pairs_n; i++)
        for (int64_t k = 0; k < c->pairs[i].confounders_n; k++)
            add_cause(&causes, &n, &c->pairs[i].confounders[k], (int)c->pairs[i].b + 1);
    for (int i = 0; i < n; i++)
        close_range(&causes[i]);
    put_causes(d, causes, n, 0, c->pairs_n > 1);
    put_causes(d, causes, n, 1, c->pairs_n > 1);
    for (int i = 0; i < n; i++)
        rp_buf_fini(&causes[i].where);
    free(causes);
}

/* ---- machines ---- */

/* A value of one machine; of a list only what the other one lacks: "only here: avx512_bf16 amx_tile"; how many values a
 * group has, such as a library. */
static void put_side(struct rp_doc *d, const json_t *side, const json_t *other)
{
    RP_BUF text = {0};
    const struct rp_leaf leaf = rp_leaf(side);
    RP_JSON *words = rp_capture_only_here(leaf.value, rp_leaf(other).value);
    json_t *word;
    size_t i;
    if (words && !json_array_size(words))
        rp_buf_puts(&text, "nothing that the other lacks");
    json_array_foreach(words, i, word)
        rp_buf_printf(&text, "%s%s", i ? " " : "only here: ", json_string_value(word));
    if (!words && leaf.value)
        rp_json_write_plain(&text, leaf.value);
    if (leaf.values)
        rp_doc_cell(d, "(%lld value%s)", (long long)leaf.values, rp_s(leaf.values));
    else if (!leaf.value)
        rp_doc_text(d, leaf.state, "absent");
    else
        rp_doc_cell(d, "%s%s%s", rp_buf_text(&text), *leaf.unit ? " " : "", leaf.unit);
}

static void put_machines(struct rp_doc *d, const struct rp_comparison *c)
{
    int begun = 0;
    for (int64_t i = 0; i < c->pairs_n; i++) {
        const struct rp_machine_comparison *e = c->pairs[i].environment;
        for (int64_t k = 0; e && k < e->important_n; k++) {
            const struct rp_difference *one = &e->important[k];
            if (!begun++) {
                rp_doc_heading(d, "Differences between the machines, by their likely impact");
                rp_doc_table(d, "##|impact|field|result 1|the other");
            }
            rp_doc_cell(d, "%lld", (long long)c->pairs[i].b + 1);
            rp_doc_cell(d, "%s", one->impact);
            rp_doc_cell(d, "%s", one->field);
            put_side(d, one->a, one->b);
            put_side(d, one->b, one->a);
        }
    }
    for (int64_t i = 0; i < c->pairs_n && c->pairs_n <= 10; i++) {
        const struct rp_machine_comparison *e = c->pairs[i].environment;
        if (e)
            rp_doc_line(d,
                        "%lld against 1: %lld values of high or medium impact differ, %lld others; %lld could not be "
                        "compared. 'repro capture diff' lists all.",
                        (long long)c->pairs[i].b + 1, (long long)(e->important_n + e->more), (long long)e->other,
                        (long long)e->not_compared);
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
static void put_facts(struct rp_doc *d, const struct rp_comparison *c)
{
    int begun = 0;
    for (int64_t i = 0; i < c->pairs_n; i++) {
        const struct rp_pair *p = &c->pairs[i];
        for (int64_t k = 0; k < p->facts_n; k++) {
            const struct rp_labelled *one = &p->facts[k];
            RP_BUF first = {0}, other = {0};
            show_value(&first, one->a, one->unit ? one->unit : "");
            show_value(&other, one->b, one->unit ? one->unit : "");
            if (rp_buf_is(&other, first.data, first.size))
                continue;
            if (!begun++) {
                rp_doc_title(d, "Facts that differ");
                rp_doc_table(d, "##|fact|result 1|the other");
            }
            rp_doc_cell(d, "%lld", (long long)p->b + 1);
            rp_doc_cell(d, "%s", one->name);
            rp_doc_text(d, rp_buf_text(&first), RP_UNKNOWN);
            rp_doc_text(d, rp_buf_text(&other), RP_UNKNOWN);
        }
    }
}

/* ---- the whole comparison ---- */

static void put_headline(struct rp_doc *d, const struct rp_comparison *c)
{
    int count[3] = {0};
    for (int64_t i = 0; i < c->pairs_n; i++)
        for (int v = 0; v < 3; v++)
            count[v] += strcmp(c->pairs[i].verdict, rp_comparable_text((enum rp_comparable)v)) == 0;
    if (c->pairs_n == 1)
        rp_doc_heading(d, "%s", c->verdict);
    else
        rp_doc_heading(d, "%s (%lld results against the first: %d comparable, %d with reservations, %d not)",
                       c->verdict, (long long)c->pairs_n, count[0], count[1], count[2]);
}

/* Without `why` a comparison of many is its table, and where the rest is. */
void rp_compare_show(struct rp_doc *out, const struct rp_rows *rows, const struct rp_comparison *c, int why)
{
    const int whole = why || c->pairs_n == 1;
    put_headline(out, c);
    if (c->left_out > 0)
        rp_doc_line(out, "%lld result%s of other models left out (--all shows them)", (long long)c->left_out,
                    rp_s(c->left_out));
    put_results(out, rows, c, whole ? c->pairs_n : PAIRS_SHOWN);
    rp_fleet_show(out, rows, c->fleet, 0);
    if (whole) {
        put_confounders(out, c);
        put_facts(out, c);
    } else {
        if (c->pairs_n > PAIRS_SHOWN)
            rp_doc_line(out, "%lld more results, which --why lists, as do --format csv and --json",
                        (long long)c->pairs_n - PAIRS_SHOWN);
        rp_doc_line(out, "reservations by the effect that they can have; --why lists all, with both values");
    }
    if (c->scaling_n && (whole || c->scaling_n <= SCALING_SHOWN)) {
        rp_doc_heading(out, "Speed-up and efficiency");
        rp_scaling_table(out, rows, c->scaling, c->scaling_n);
    }
    if (whole)
        put_machines(out, c);
    if (c->notes_n)
        rp_doc_heading(out, "Notes");
    for (int64_t i = 0; i < c->notes_n; i++)
        rp_doc_line(out, "%s", c->notes[i]);
}

/* ---- one line per result, for programs that do not read JSON ---- */

/* What a comparison has about result i: its pair, and its place in a series. */
static json_t *entry_of(const struct rp_comparison *c, int i)
{
    json_t *entry = json_object();
    for (int64_t k = 0; k < c->pairs_n; k++)
        if (c->pairs[k].b == i)
            json_object_update_new(entry, pair_json(&c->pairs[k]));
    for (int64_t k = 0; k < c->scaling_n; k++)
        if (c->scaling[k].row == i)
            json_object_update_new(entry, rp_object_json(&c->scaling[k], &rp_type_scaling_entry));
    return entry;
}

void rp_compare_flat(struct rp_doc *out, const struct rp_rows *rows, const struct rp_comparison *c)
{
    rp_layout_begin(out, RP_TABLE_flat, 0);
    for (int i = 0; i < rows->n; i++) {
        RP_JSON *entry = entry_of(c, i);
        rp_layout_cells(out, RP_TABLE_flat, 0,
                        &(struct rp_line){.row = &rows->row[i], .entry = entry, .number = i + 1});
    }
}

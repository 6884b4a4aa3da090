/* Worlds of one work: for each series of results that differ only in their devices a table with speed-up and efficiency against the
 * smallest. */
#include "compare/compare.h"
#include "compare/layout.h"

#include "base/json.h"

/* The entries of one series have the same base. */
static json_t *series_from(const json_t *list, size_t *at)
{
    json_t *out = json_array();
    const long long base = rp_json_integer_at(json_array_get(list, *at), "base");
    for (; *at < json_array_size(list) && rp_json_integer_at(json_array_get(list, *at), "base") == base; ++*at)
        json_array_append(out, json_array_get(list, *at));
    return out;
}

static void put_series(struct rp_doc *d, const struct rp_rows *rows, const json_t *series)
{
    const struct rp_result *base = &rows->row[rp_json_integer_at(json_array_get(series, 0), "base")];
    RP_FREE char *hardware = rp_result_hardware(base);
    rp_doc_heading(d, "%s, %s", base->model ? base->model : RP_UNKNOWN, base->precision ? base->precision : RP_UNKNOWN);
    rp_doc_title(d, "Against %lld of %s, in %s", (long long)base->devices, hardware ? hardware : "unknown hardware",
                 base->unit ? base->unit : RP_UNKNOWN);
    rp_scaling_table(d, rows, series);
}

void rp_layout_scaling(struct rp_doc *d, const struct rp_rows *rows)
{
    RP_JSON *notes = json_array(), *list = rp_scaling(rows, notes);
    rp_doc_heading(d, "Speed-up and efficiency");
    rp_layout_footnote(d, rows);
    for (size_t i = 0; i < json_array_size(list);) {
        RP_JSON *series = series_from(list, &i);
        put_series(d, rows, series);
    }
    if (json_array_size(list) < (size_t)rows->n)
        rp_doc_line(d, "Results without another of the same work on other numbers of devices, which are left out: %zu.",
                    (size_t)rows->n - json_array_size(list));
    rp_scaling_explain(rows, list, notes);
    for (size_t i = 0; i < json_array_size(notes); i++)
        rp_doc_line(d, "%s", json_string_value(json_array_get(notes, i)));
}

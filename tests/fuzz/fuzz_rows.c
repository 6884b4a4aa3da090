/* Any bytes as a table or as an imported document: refused with one line, or rows within bounds that survive a
 * comparison, every layout and every format without a character that a terminal would obey. */
#include "base/json.h"
#include "base/text.h"
#include "compare/compare.h"
#include "compare/layout.h"
#include "tests/fuzz/fuzz.h"

#include <math.h>

static void check_text(const struct rp_buf *b)
{
    for (size_t i = 0, n; i < b->size; i += n) {
        unsigned c = 0;
        n = rp_utf8(b->data + i, b->size - i, &c);
        must(n && ((!rp_is_control(c) && !rp_is_invisible(c)) || c == '\n'));
    }
}

static void written(struct rp_doc *d)
{
    for (int f = RP_DOC_TEXT; f <= RP_DOC_CSV; f++) {
        RP_BUF out = {0};
        rp_doc_write(&out, d, (enum rp_doc_format)f);
        check_text(&out);
    }
    rp_doc_fini(d);
}

static void use(struct rp_rows *rows)
{
    struct rp_err err;
    struct rp_doc d = {0};
    enum rp_comparable verdict;
    for (int i = 0; i < rows->n; i++) {
        const struct rp_result *row = &rows->row[i];
        rp_result_complete(&rows->row[i]);
        must(isnan(row->throughput) || (row->throughput > 0 && row->throughput <= RP_RESULT_NUMBER_MAX && row->unit));
        must(!row->source.signed_by && !row->source.verdict && row->source.kind != RP_RESULT_BUNDLE);
    }
    RP_COMPARISON c = {0};
    if (rows->n >= 2 && rows->n < 50 && rp_compare(&c, rows, &verdict, &err) == 0) {
        must(verdict != RP_COMPARABLE); /* without signed records there is always a reservation */
        rp_compare_show(&d, rows, &c, 1);
        written(&d);
    }
    for (const struct rp_layout *l = rp_layouts; l->name; l++) {
        rp_layout_write(&d, l->name, rows);
        written(&d);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rp_rows rows = {0};
    struct rp_err err = {0};
    int rc = -1;
    if (size && *data == '{') {
        json_t *j = rp_json_parse((const char *)data, size, "fuzz.json", &err);
        rc = j ? rp_rows_from_json(&rows, j, "fuzz.json", NULL, &err) : -1;
        json_decref(j);
    } else {
        rc = rp_rows_from_csv(&rows, (const char *)data, size, "fuzz.csv", NULL, &err);
    }
    if (rc == 0)
        use(&rows);
    else
        must(err.code == RP_MALFORMED && *err.msg && !strchr(err.msg, '\n'));
    rp_rows_fini(&rows);
    return 0;
}

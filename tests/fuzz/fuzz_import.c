/* Any bytes as a log: the first says of which format ('d' is the first row of formats.def, 'e' the second), the second
 * what the command line says. Refused with one line, or a document that compare reads, of printable text and figures
 * above 0. FUZZ_FORMAT=nccl: that format alone, whatever the first byte says. */
#include "base/json.h"
#include "base/text.h"
#include "compare/result.h"
#include "import/import.h"
#include "tests/fuzz/fuzz.h"

#include <math.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Where samples are listed, the figure follows from them as compare takes them: the median over groups of the harmonic
 * mean in each. */
static void check_samples(const struct rp_result *row)
{
    RP_FREE double *mean = rp_alloc((size_t)(row->groups + 1) * sizeof *mean);
    const double *v = row->sample;
    for (int64_t g = 0; g < row->groups; g++) {
        double inverse = 0;
        for (int64_t i = 0; i < row->group[g]; i++)
            inverse += 1 / *v++;
        mean[g] = (double)row->group[g] / inverse;
    }
    if (!row->groups)
        return;
    qsort(mean, (size_t)row->groups, sizeof *mean, by_value);
    double low = mean[(row->groups - 1) / 2], high = mean[row->groups / 2], median = (low + high) / 2;
    if (row->throughput > 1e-12 && !(fabs(median / row->throughput - 1) < 1e-3))
        abort();
}

/* JSON spells control characters as \u....; a backslash before a u is two and a u. */
static int has_control(const char *json)
{
    while ((json = strchr(json, '\\')) && json[1] != 'u')
        json += 2;
    return json != NULL;
}

static void check(const json_t *doc)
{
    struct rp_err err = {0};
    struct rp_rows rows = {0};
    RP_BUF text = {0}, clean = {0};
    if (!doc || rp_rows_from_json(&rows, doc, "doc.json", NULL, &err) < 0 || rows.n < 1)
        abort();
    for (int i = 0; i < rows.n; i++)
        check_samples(&rows.row[i]);
    rp_rows_fini(&rows);
    rp_json_write_line(&text, doc);
    text.size--;
    text.data[text.size] = 0;
    rp_buf_add(&clean, text.data, text.size);
    rp_sanitize(clean.data);
    if (strcmp(text.data, clean.data) != 0 || has_control(text.data))
        abort();
}

static const struct rp_importer *importer(uint8_t first)
{
    static const struct rp_importer *only;
    const char *name = getenv("FUZZ_FORMAT");
    struct rp_err err;
    int formats = 0;
    if (name && !only && !(only = rp_importer_find(name, &err)))
        abort();
    while (rp_importers[formats])
        formats++;
    return only ? only : rp_importers[(uint8_t)(first - 'd') % formats];
}

/* Bytes between form feeds as the files of an MLPerf result, the last of them perhaps the description of its
 * machine. */
static int import_parts(struct rp_import *im, const uint8_t *data, size_t size, const struct rp_import_opts *o,
                        struct rp_err *err)
{
    static const char *const paths[] = {"results/M/gpt3/result_0.txt", "results/M/gpt3/result_1.txt",
                                        "results/M/gpt3/result_2.txt", "systems/M.json"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        const uint8_t *end = size ? memchr(data, '\f', size) : NULL;
        const size_t n = end ? (size_t)(end - data) : size;
        if (rp_import_memory(im, paths[i], data, n, o, err) < 0)
            return -1;
        if (!end)
            break;
        data += n + 1;
        size -= n + 1;
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *set[] = {"global_batch=256", "framework=f"};
    if (size < 2)
        return 0;
    struct rp_err err = {0};
    struct rp_import im = {.importer = importer(data[0])};
    struct rp_import_opts o = {.from = data[1] & 1 ? 3 : -1, .to = data[1] & 2 ? 9 : -1, .set = set,
                               .sets = (data[1] >> 2) & 2, .unit = data[1] & 4 ? "tokens/s" : NULL};
    const char *paths[] = {"logs/2n8g/bert_b32_fp32_1.log", "logs/2n8g/bert_b32_fp32_2.log"};
    int failed = 0;
    if (data[1] & 32)
        failed = import_parts(&im, data + 2, size - 2, &o, &err) < 0;
    for (int i = 0; !(data[1] & 32) && i <= (data[1] >> 4 & 1) && !failed; i++)
        failed = rp_import_memory(&im, paths[i], data + 2, size - 2, &o, &err) < 0;
    if (failed || rp_import_finish(&im, &err) < 0) {
        must_be_refusal(&err);
    } else {
        RP_JSON *doc = rp_import_document(&im, &o, "2026-11-21T00:00:00Z");
        check(doc);
    }
    rp_import_fini(&im);
    return 0;
}

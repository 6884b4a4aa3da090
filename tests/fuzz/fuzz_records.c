/* Any bytes as steps/rank0.jsonl: refused with one line, or a JSON library reads every line and it fits the schema. */
#include "base/json.h"
#include "bundle/schema.h"
#include "run/records.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct rp_schema *schema; /* read once */
    struct rp_err err = {0};
    struct rp_records records;
    RP_BUF text = {0};
    if (!schema && !(schema = rp_schema_load("step", &err)))
        abort();
    rp_buf_add(&text, data, size);
    if (rp_records_parse(&records, text.data, size, &err) < 0) {
        must_be_refusal(&err);
        return 0;
    }
    int64_t lines = 0;
    for (char *line = text.data, *end; *line; line = end + 1, lines++) {
        end = strchr(line, '\n');
        json_t *j = end ? rp_json_parse(line, (size_t)(end - line), "line", &err) : NULL;
        if (!j || rp_schema_check(schema, j, "line", &err) < 0)
            abort();
        json_decref(j);
    }
    if (lines != records.n)
        abort();
    rp_records_fini(&records);
    return 0;
}

/* Any bytes as steps/rank0.telemetry.jsonl: refused with one line, or every line fits the schema and they are in order. */
#include "base/json.h"
#include "bundle/schema.h"
#include "run/telemetry.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct rp_schema *schema; /* read once */
    struct rp_err err = {0};
    struct rp_telemetry s;
    struct rp_records none = {0};
    RP_BUF text = {0}, lines = {0};
    if (!schema && !(schema = rp_schema_load("telemetry", &err)))
        abort();
    rp_buf_add(&text, data, size);
    if (rp_telemetry_parse(&s, 0, 1, rp_buf_text(&text), size, &err) < 0) {
        must_be_refusal(&err);
        must(err.code == RP_MALFORMED || err.code == RP_MISMATCH);
        return 0;
    }
    for (int64_t i = 0; i < s.n; i++) {
        const json_t *line = json_array_get(s.line, (size_t)i);
        if (rp_schema_check(schema, line, "line", &err) < 0 || (i && rp_sample_ns(&s, i) <= rp_sample_ns(&s, i - 1)))
            abort();
        rp_json_write_line(&lines, line);
    }
    if (lines.size != size || (size && memcmp(lines.data, data, size) != 0)) /* written in one way only */
        abort();
    json_decref(rp_telemetry_json(&s, &none));
    rp_telemetry_fini(&s);
    return 0;
}

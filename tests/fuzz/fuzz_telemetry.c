/* Any bytes as steps/rank0.telemetry.jsonl: refused with one line, or every line fits the schema and they are in
 * order. */
#include "base/json.h"
#include "bundle/schema.h"
#include "run/derive.h"
#include "tests/fuzz/fuzz.h"

/* Figures of a run whose steps are those of the samples. */
static void derive(const struct rp_telemetry *s)
{
    struct rp_figures f;
    struct rp_rank_share share = {.from_ns = -1};
    rp_object_init(&f, &rp_type_figures);
    (void)rp_object_add(&f.rank, &f.rank_n, &rp_type_rank_figures);
    if (s->n) {
        share.from_ns = s->sample->ns;
        share.span_ns = s->sample[s->n - 1].ns - share.from_ns;
    }
    rp_derive_telemetry(&f, 0, s, &share);
    must(f.rank[0].telemetry->timed == s->n);
    rp_object_fini(&f, &rp_type_figures);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct rp_schema *schema; /* read once */
    struct rp_err err = {0};
    struct rp_telemetry s;
    RP_BUF text = {0}, lines = {0};
    if (!schema && !(schema = rp_facts_schema("telemetry", &err)))
        abort();
    rp_buf_add(&text, data, size);
    if (rp_telemetry_parse(&s, "samples", rp_telemetry_most(1), rp_buf_text(&text), size, &err) < 0) {
        must_be_refusal(&err);
        must(err.code == RP_MALFORMED || err.code == RP_MISMATCH);
        return 0;
    }
    for (int64_t i = 0; i < s.n; i++) {
        RP_JSON *line = rp_object_json(&s.sample[i], &rp_type_device_sample);
        if (rp_schema_check(schema, line, "line", &err) < 0 || (i && s.sample[i].ns <= s.sample[i - 1].ns))
            abort();
        rp_json_write_line(&lines, line);
    }
    if (lines.size != size || (size && memcmp(lines.data, data, size) != 0)) /* written in one way only */
        abort();
    derive(&s);
    rp_telemetry_fini(&s);
    return 0;
}

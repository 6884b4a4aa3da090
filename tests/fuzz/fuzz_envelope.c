/* Any bytes as a DSSE envelope: refused with one line, or they are the one spelling of what was read; then the payload
 * as a statement. */
#include "base/json.h"
#include "bundle/bundle.h"
#include "bundle/schema.h"
#include "sign/dsse.h"
#include "sign/statement.h"
#include "tests/fuzz/fuzz.h"

static void statement(const struct rp_buf *payload)
{
    static const struct rp_schema *schema; /* read once */
    struct rp_subject s[8];
    struct rp_err err = {0};
    if (!schema && !(schema = rp_schema_load("statement", &err)))
        abort();
    json_t *j = rp_json_parse(payload->data, payload->size, "statement", &err);
    if (!j) {
        must_be_refusal(&err);
        return;
    }
    int fits = rp_schema_check(schema, j, "statement", &err) == 0;
    if (!fits)
        must_be_refusal(&err);
    if (err.code == RP_BUG)
        abort();
    err = (struct rp_err){0};
    int n = rp_statement_subjects(j, s, 8, &err);
    if (n < 0)
        must_be_refusal(&err);
    for (int i = 0; i < n; i++)
        if (strlen(s[i].sha256) != 64)
            abort();
    json_decref(j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rp_envelope e;
    struct rp_err err = {0};
    RP_BUF pae = {0};
    if (rp_dsse_parse(&e, (const char *)data, size, &err) < 0) {
        must_be_refusal(&err);
        RP_BUF raw = {0};
        rp_buf_add(&raw, data, size);
        statement(&raw); /* the same bytes, as if they had been signed */
        return 0;
    }
    statement(&e.payload);
    rp_dsse_pae(&pae, RP_DSSE_PAYLOAD_TYPE, e.payload.data, e.payload.size);
    if (pae.size <= e.payload.size)
        abort();
    rp_envelope_fini(&e);
    return 0;
}

/* Any bytes as JSON: bounded, read as jansson reads them, and written so that they are read again as the same
 * document. */
#include "base/json.h"
#include "base/json_own.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rp_err err = {0};
    int own = 0;
    const char *text = (const char *)data;
    RP_BUF once = {0}, twice = {0};
    RP_JSON *ours = rp_json_parse_own(text, size, 1000000, &own, "fuzz.json", &err);
    if (!ours) {
        must_be_refusal(&err);
        return 0;
    }
    RP_JSON *reference = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
    rp_json_write(&once, ours);
    RP_JSON *again = rp_json_parse(once.data, once.size, "again", &err);
    must(reference && again && json_equal(ours, reference) && json_equal(ours, again));
    RP_JSON *fast = rp_json_read_own(text, size, 1000000); /* not every text in our form, but no other one */
    must(!fast || (json_equal(fast, reference) && rp_buf_is(&once, text, size)));
    must(own || !rp_buf_is(&once, text, size));
    rp_json_write(&twice, again);
    must(rp_buf_is(&twice, once.data, once.size));
    return 0;
}

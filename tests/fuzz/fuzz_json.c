/* Any bytes as JSON: read by our own reader as jansson reads them, value for value and in the same order, or left to it; what is taken is
 * written so that it is read again, and is known as our own spelling where it is that already. */
#include "base/json.h"
#include "base/json_plain.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds)
{
    if (!holds)
        abort();
}

/* In the order of the text, and 1 is not 1.0. */
static void same(const json_t *a, const json_t *b)
{
    RP_FREE char *x = json_dumps(a, JSON_COMPACT | JSON_REAL_PRECISION(17)), *y = json_dumps(b, JSON_COMPACT | JSON_REAL_PRECISION(17));
    must(x && y && strcmp(x, y) == 0 && json_equal(a, b));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rp_err err = {0};
    int own = 0, told = 0;
    const char *text = (const char *)data;
    RP_JSON *ours = rp_json_parse(text, size, "fuzz.json", &err);
    if (!ours)
        must(err.code == RP_MALFORMED && *err.msg && !strchr(err.msg, '\n'));
    if (!size || (!ours && (strstr(err.msg, "nested deeper") || strstr(err.msg, "more than")))) /* bounds that jansson has not */
        return 0;
    RP_JSON *reference = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL), *plain = rp_json_plain(text, size, 1000000, &own);
    must(!ours == !reference && (!plain || reference));
    if (ours)
        same(ours, reference);
    if (plain)
        same(plain, reference);
    if (ours) {
        RP_BUF once = {0}, twice = {0};
        rp_json_write(&once, ours);
        RP_JSON *same = rp_json_parse_own(text, size, 1000000, &told, "fuzz.json", &err);
        must(same && told == rp_buf_is(&once, text, size) && (!plain || own == told));
        RP_JSON *again = rp_json_parse(once.data, once.size, "again", &err);
        must(again != NULL);
        rp_json_write(&twice, again);
        must(rp_buf_is(&twice, once.data, once.size) && json_equal(ours, again));
    }
    return 0;
}

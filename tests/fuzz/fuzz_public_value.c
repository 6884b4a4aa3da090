/* Any bytes as a public value: refused with one line, or of a kind whose texts a terminal can show, the same when read
 * again, and proved only where work was. After a first byte "m", a drand round whose randomness is made to fit its
 * signature. */
#include "sign/public_value.h"

#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"
#include "tests/fuzz/fuzz.h"

static void mend(struct rp_buf *out, const char *text, size_t size)
{
    struct rp_err err;
    unsigned char bytes[96];
    char hex[RP_SHA256_HEX];
    RP_JSON *j = rp_json_parse_most(text, size, 16, "input", &err);
    const char *signature = rp_json_text_at(j, "signature");
    size_t n = strlen(signature) / 2;
    if (!json_is_object(j) || n > sizeof bytes || rp_unhex(bytes, n, signature) < 0)
        return;
    rp_sha256_hex(hex, bytes, n);
    json_object_set_new(j, "randomness", json_string(hex));
    rp_json_write_line(out, j);
}

static void plain(const char *text, size_t room)
{
    size_t n = strlen(text);
    must(n > 0 && n < room - 1 && rp_plain_size(text, n, 0) == n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rp_public_value v, again;
    struct rp_err err = {0};
    RP_BUF text = {0};
    if (size && *data == 'm')
        mend(&text, (const char *)data + 1, size - 1);
    else
        rp_buf_add(&text, data, size);
    if (rp_public_value_read(&v, rp_buf_text(&text), text.size, &err) < 0) {
        must_be_refusal(&err);
        return 0;
    }
    plain(v.kind, sizeof v.kind);
    plain(v.name, sizeof v.name);
    plain(v.checked, sizeof v.checked);
    plain(v.claimed, sizeof v.claimed);
    must(v.time_ns > 0 && v.early_ns >= 0 && v.early_ns < v.time_ns);
    must(v.proved == (strcmp(v.kind, "bitcoin") == 0));
    must(rp_public_value_read(&again, rp_buf_text(&text), text.size, &err) == 0 && memcmp(&v, &again, sizeof v) == 0);
    return 0;
}

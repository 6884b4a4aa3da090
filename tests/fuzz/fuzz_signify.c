/* Any bytes as a public key and as a signature of signify: refused with one line, or written again as they were
 * read. */
#include "sign/signify.h"
#include "tests/fuzz/fuzz.h"

/* A key that was taken has the same bytes in every form. */
static void as_public(const char *text, size_t size)
{
    struct rp_err err = {0};
    struct rp_foreign_public raw, again;
    RP_BUF form = {0};
    struct rp_key_pair *k = rp_key_load_public(text, size, "input", &err);
    if (!k) {
        must_be_refusal(&err);
        return;
    }
    if (rp_is_commented(text, size)) {
        rp_foreign_public_write(&form, k, "signify");
        if (rp_foreign_public_read(&raw, text, size, "input", &err) < 0 ||
            rp_foreign_public_read(&again, form.data, form.size, "again", &err) < 0 ||
            memcmp(&raw, &again, sizeof raw) != 0)
            abort();
    }
    rp_key_free(k);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct rp_key_pair *key; /* made once: RFC 8032, test 1 */
    static const char pem[] =
        "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n-----END PUBLIC "
        "KEY-----\n";
    const char *text = (const char *)data;
    struct rp_err err = {0};
    if (!key && !(key = rp_key_load_public(pem, sizeof pem - 1, "pem", &err)))
        abort();
    rp_record_size(text, size);
    as_public(text, size);
    if (rp_signify_check(text, size, key, "hello\n", 6, "input", &err) < 0)
        must_be_refusal(&err);
    return 0;
}

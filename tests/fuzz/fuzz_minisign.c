/* Any bytes as a signature of minisign: refused with one line, or a signature by the one key of which there are
 * some. */
#include "sign/minisign.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct rp_key_pair *key; /* which signed what is in the corpus */
    static const char public[] = "untrusted comment: minisign public key "
                                 "7E66C40A55FB3324\nRWQkM/tVCsRmftSt6ZXioa2YdyYHFmfQ7kuDW/zhOtGJ4Av6lVYGt8W1\n";
    const char *text = (const char *)data;
    struct rp_err err = {0};
    if (!key && !(key = rp_key_load_public(public, sizeof public - 1, "public", &err)))
        abort();
    if (rp_minisign_check(text, size, key, "hello\n", 6, "input", &err) < 0) {
        must_be_refusal(&err);
        return 0;
    }
    err = (struct rp_err){0};
    if (rp_minisign_check(text, size, key, "hallo\n", 6, "input", &err) == 0) /* then nothing was checked */
        abort();
    must_be_refusal(&err);
    return 0;
}

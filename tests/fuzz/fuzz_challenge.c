/* Any bytes as a challenge: as the whole file, and as a payload that a key signed. What is taken shows nothing that a
 * terminal obeys, is the same when read again, and gives every recipe its seeds. */
#include "sign/challenge.h"

#include "base/json.h"
#include "base/text.h"
#include "recipe/recipe.h"
#include "sign/dsse.h"
#include "tests/fuzz/fuzz.h"

#include <unistd.h>

/* RFC 8032, test 1: so that the files of the corpus hold. */
static const char pem[] =
    "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpe1pJGXA7rAMcrn9g\n-----END PRIVATE "
    "KEY-----\n";

static struct rp_key_pair *key(void)
{
    static struct rp_key_pair *k;
    struct rp_err err;
    char path[] = "/tmp/fuzz_challenge-XXXXXX";
    if (k)
        return k;
    RP_FD fd = mkstemp(path);
    must(fd >= 0 && rp_write_all(fd, pem, sizeof pem - 1) == 0 && (k = rp_key_load(path, -1, &err)));
    unlink(path);
    return k;
}

static void check(const void *data, size_t size)
{
    struct rp_challenge c, again;
    struct rp_err err = {0};
    if (rp_challenge_read(&c, data, size, &err) < 0) {
        must_be_refusal(&err);
        return;
    }
    must(c.parts >= RP_PARTS_LEAST && c.parts <= RP_PARTS_MOST && rp_is_sha256(c.nonce) && rp_is_sha256(c.sha256) &&
         rp_plain_size(c.note, strlen(c.note), 0) == strlen(c.note));
    must(rp_plain_size(c.checked, strlen(c.checked), 0) == strlen(c.checked) && *c.kind);
    must(rp_challenge_read(&again, data, size, &err) == 0 && memcmp(&c, &again, sizeof c) == 0);
    RP_JSON *j = rp_challenge_json(&c);
    must(json_is_object(j));
    for (uint64_t parts = 1; parts < 5; parts++)
        must(rp_challenge_draw(&c, c.sha256, 0, parts) < parts);
    struct rp_recipe r;
    must(rp_recipe_load(&r, "bert_tiny_fp32", NULL, NULL, 0, &err) == 0 &&
         rp_recipe_challenge(&r, c.nonce, c.parts, "SHA256:", &err) == 0);
    rp_recipe_fini(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rp_err err;
    RP_BUF envelope = {0};
    check(data, size);
    must(rp_dsse_seal(&envelope, data, size, key(), &err) == 0);
    check(rp_buf_text(&envelope), envelope.size);
    return 0;
}

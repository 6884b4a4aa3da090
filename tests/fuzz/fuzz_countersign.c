/* Any bytes as a counter-signature: as the whole envelope, and as a payload that its key signed. What is taken is what
 * sealing writes. */
#include "sign/countersign.h"
#include "sign/dsse.h"
#include "tests/fuzz/fuzz.h"

#include <unistd.h>

/* RFC 8032, test 1: so that an envelope in the corpus holds. */
static const char pem[] =
    "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpe1pJGXA7rAMcrn9g\n-----END PRIVATE "
    "KEY-----\n";
static const char statement[] = "a statement\n";

static struct rp_key_pair *key(void)
{
    static struct rp_key_pair *k;
    struct rp_err err;
    char path[] = "/tmp/fuzz_countersign-XXXXXX";
    if (k)
        return k;
    RP_FD fd = mkstemp(path); /* 0600, as a key has to be */
    if (fd < 0 || rp_write_all(fd, pem, sizeof pem - 1) < 0 || !(k = rp_key_load(path, -1, &err)))
        abort();
    unlink(path);
    return k;
}

/* 1: taken. */
static int check(const void *text, size_t size)
{
    struct rp_countersignature c;
    struct rp_err err = {0};
    RP_BUF of = {0}, again = {0};
    rp_buf_puts(&of, statement);
    if (rp_countersign_open(&c, text, size, &of, key(), &err) < 0) {
        if ((err.code != RP_MALFORMED && err.code != RP_SIGNATURE && err.code != RP_MISMATCH) || !*err.msg ||
            strchr(err.msg, '\n'))
            abort();
        return 0;
    }
    if (rp_countersign_seal(&again, &c, &of, key(), &err) < 0 || !rp_buf_is(&again, text, size))
        abort();
    rp_buf_puts(&of, "x"); /* nor is it about any other */
    if (rp_countersign_open(&c, text, size, &of, key(), &err) == 0 || err.code != RP_MISMATCH)
        abort();
    return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rp_err err;
    RP_BUF envelope = {0};
    check(data, size);
    if (rp_dsse_seal(&envelope, data, size, key(), &err) < 0)
        abort();
    int taken = check(rp_buf_text(&envelope), envelope.size);
    if (taken && (size < 400 || data[0] != '{')) /* no statement is as short */
        abort();
    return 0;
}

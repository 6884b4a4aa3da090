/* Any bytes as an authority's answer about a statement: refused with one line, or about it and with texts that a
 * terminal can show. What is by the authority of the corpus, which nobody can forge, is one of its tokens. */
#include "sign/timestamp.h"

#include "base/text.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <unistd.h>

/* The root of the authority of the corpus; its key is gone. */
static const char root[] = "-----BEGIN CERTIFICATE-----\n"
                          "MIIBZDCCAQqgAwIBAgIUFRMZq4ATx/sORhl/K/uWT2DobCswCgYIKoZIzj0EAwIw\n"
                          "DzENMAsGA1UEAwwEcm9vdDAgFw0yNjExMjMxMzM0NTJaGA8yMTI2MTAzMDEzMzQ1\n"
                          "MlowDzENMAsGA1UEAwwEcm9vdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABCX1\n"
                          "8ZJaoe8pUS9fuzq7eik51SWedPb4nNKfK0wpF+XmlP6/s8DOPmN7pSNmL8n5dYRC\n"
                          "M4r7Xh1rxj6LyLx9eiCjQjBAMA8GA1UdEwEB/wQFMAMBAf8wDgYDVR0PAQH/BAQD\n"
                          "AgIEMB0GA1UdDgQWBBTOFoBAzDxNeTYnsYlp+9hFplopoTAKBggqhkjOPQQDAgNI\n"
                          "ADBFAiEA40yfY2XDVwcXP+vfmSpPolGJfoTXm6H7KuIb+YZ9+NkCIHJkBbU4yGDf\n"
                          "/rkuoGM4kuJva4wNSrb0zDKUBFP6dYZ4\n"
                          "-----END CERTIFICATE-----\n";
#define MADE 1795440893000000000 /* when the tokens of the corpus were made, within an hour */
static const struct rp_buf statement = {.data = (char[]){"a statement\n"}, .size = 12},
                           other = {.data = (char[]){"another one\n"}, .size = 12};

static const struct rp_tsa_ca *authority(void)
{
    static struct rp_tsa_ca *ca;
    struct rp_err err;
    char path[] = "/tmp/fuzz_timestamp-XXXXXX";
    if (ca)
        return ca;
    RP_FD fd = mkstemp(path);
    must(fd >= 0 && rp_write_all(fd, root, sizeof root - 1) == 0 && (ca = rp_tsa_ca_load(path, &err)));
    unlink(path);
    return ca;
}

static void plain(const char *text)
{
    must(rp_plain_size(text, strlen(text), 0) == strlen(text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct rp_timestamp t, again;
    struct rp_err err = {0};
    const struct rp_tsa_ca *ca = authority();
    if (rp_timestamp_read(&t, text, size, &statement, &err) < 0) {
        must_be_refusal(&err);
        return 0;
    }
    plain(t.hash), plain(t.serial), plain(t.policy), plain(t.authority);
    must(t.time_ns > 0 && t.accuracy_ns >= -1 && *t.serial && *t.policy && *t.hash);
    must(rp_timestamp_read(&again, text, size, &other, &err) < 0 && err.code == RP_MISMATCH);
    err = (struct rp_err){0};
    if (rp_timestamp_check(&t, text, size, ca, &err) < 0) {
        must_be_refusal(&err);
        return 0;
    }
    must(strcmp(t.authority, "CN=authority,O=Exact Uhr") == 0 && t.accuracy_ns == 1500100000 && t.time_ns > MADE &&
         t.time_ns < MADE + 3600000000000);
    return 0;
}

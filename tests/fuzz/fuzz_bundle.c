/* Any bytes as a bundle, and as the tar inside one: refused with one line, or they are the one spelling of the members read. */
#include "bundle/bundle.h"
#include "bundle/pack.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void refused(const struct rp_err *err)
{
    if (err->code == RP_OK || !*err->msg || strchr(err->msg, '\n') || strchr(err->msg, 27))
        abort();
}

static void as_tar(const uint8_t *data, size_t size)
{
    RP_BUF tar = {0}, again = {0};
    char name[RP_TAR_NAME_MAX + 1];
    const char *content;
    size_t at = 0, n;
    int more;
    struct rp_err err = {0};
    struct rp_bundle b = {0};
    rp_buf_add(&tar, data, size);
    while ((more = rp_tar_next(&tar, &at, name, &content, &n, &err)) > 0) {
        rp_tar_add(&again, name, content, n);
        if (rp_bundle_add(&b, name, content, n, &err) < 0)
            refused(&err);
    }
    if (more < 0) {
        refused(&err);
    } else {
        rp_tar_end(&again);
        if (again.size != size || memcmp(again.data, data, size) != 0)
            abort();
    }
    RP_BUF sums = {0};
    rp_bundle_sums(&sums, &b);
    rp_bundle_fini(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rp_bundle b;
    struct rp_err err = {0};
    if (rp_bundle_read(&b, (const char *)data, size, &err) < 0)
        refused(&err);
    else
        rp_bundle_fini(&b);
    as_tar(data, size);
    return 0;
}

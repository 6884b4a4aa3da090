/* A table that is committed: compared line by line, or written where RP_UPDATE=1 says so. */
#pragma once

#include "base/buf.h"
#include "tests/unit/tap.h"

#include <stdlib.h>

static inline void expect_table(const char *path, struct rp_buf *table)
{
    struct rp_err err = {0};
    RP_BUF expected = {0};
    char *rest[2] = {NULL, NULL};
    if (getenv("RP_UPDATE")) {
        CHECK(rp_write_file(path, table->data, table->size, 0644, &err) == 0, "%s", err.msg);
        return;
    }
    if (!CHECK(rp_read_file(&expected, path, 1 << 20, &err) == 0, "%s", err.msg))
        return;
    const char *is = strtok_r(table->data, "\n", &rest[0]), *was = strtok_r(expected.data, "\n", &rest[1]);
    while (is || was) {
        CHECK_STR(is, was);
        is = is ? strtok_r(NULL, "\n", &rest[0]) : NULL;
        was = was ? strtok_r(NULL, "\n", &rest[1]) : NULL;
    }
}

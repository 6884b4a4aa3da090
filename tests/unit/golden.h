/* Golden files: the words of a surface, one file each; RP_UPDATE=1 in the environment writes them anew. */
#pragma once

#include "base/buf.h"
#include "tests/unit/tap.h"

#include <stdlib.h>

/* Is the text that of the file? path: from the top of the repository. */
static inline void golden(const char *path, const struct rp_buf *text)
{
    RP_BUF expected = {0};
    struct rp_err err;
    int line = 1;
    if (getenv("RP_UPDATE"))
        CHECK(rp_write_file(path, rp_buf_text(text), text->size, 0644, &err) == 0, "%s", err.msg);
    CHECK(rp_read_file(&expected, path, 4 << 20, &err) == 0, "%s", err.msg);
    const char *a = rp_buf_text(&expected), *b = rp_buf_text(text);
    for (; *a && *a == *b; a++, b++)
        line += *a == '\n';
    CHECK(*a == *b, "%s differs in line %d: expected '%.60s', got '%.60s'", path, line, a, b);
}

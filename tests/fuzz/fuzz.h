/* For fuzz targets: their entry point, and checks that abort. */
#pragma once

#include "base/err.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

__attribute__((unused)) static void must(int holds)
{
    if (!holds)
        abort();
}

/* A refusal has a code and a message of one line that a terminal can show. */
__attribute__((unused)) static void must_be_refusal(const struct rp_err *err)
{
    must(err->code != RP_OK && *err->msg && !strpbrk(err->msg, "\n\033"));
}

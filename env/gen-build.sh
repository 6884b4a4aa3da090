#!/bin/sh
# Print the C source of the build record (src/base/build.h).
# usage: gen-build.sh VERSION COMMIT DIRTY COMPILER FLAGS DEPS_FILE GPU_WORKER DEVICE_CODE_FILE
set -eu
quote() { # stdin -> the inside of a C string, newlines as \n
    sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/$/\\n/' | tr -d '\n'
}
line() { printf '%s' "$1" | quote | sed 's/\\n$//'; }
cat <<END
#include "base/build.h"

static const struct rp_build record = {
    .version = "$(line "$1")",
    .commit = "$(line "$2")",
    .dirty = "$(line "$3")",
    .compiler = "$(line "$4")",
    .flags = "$(line "$5")",
    .deps = "$(quote <"$6")",
    .gpu_worker = "$(line "$7")",
    .device_code = "$(quote <"$8")",
};

const struct rp_build *rp_build_record(void)
{
    return &record;
}
END

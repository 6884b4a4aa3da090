#!/bin/sh
# make compile_commands.json lists every source with a command that compiles it.
. "$TOP/tests/common.inc"
need make jq
mkdir tree
(cd "$TOP" && tar cf - Makefile LICENSE env src recipes results/published tests/unit tests/ops) | tar xf - -C tree
cd tree
DEPS_DIR=$(make -s -C "$TOP" BUILD="$BUILD" -f - print <<'END'
include Makefile
print: ; @echo $(abspath $(DEPS_DIR))
END
)
make -s BUILD=build DEPS_DIR="$DEPS_DIR" compile_commands.json >out.txt 2>&1 || { cat out.txt >&2; fail "make fails"; }
jq -e --arg d "$PWD" 'length > 400 and all(.[]; . as $e | .directory == $d and (.command | endswith(" -c " + $e.file)))' compile_commands.json >answer.txt || fail "not that form"
for file in src/main.c src/backend/cpu/gemm_avx2.c src/cli/completion.c tests/unit/test_base_json.c; do
    jq -re --arg f "$file" '.[] | select(.file == $f).command' compile_commands.json >command.sh || fail "$file is not listed"
    sh -eu command.sh || fail "the command of $file does not compile it"
done

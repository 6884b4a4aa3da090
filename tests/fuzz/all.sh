#!/bin/bash
# Every fuzz target for so many seconds of processor time, one after the other; prints the rows of the table in README.md.
# usage: make fuzz-all [FUZZ="NAME..."] [SECONDS=610], or tests/fuzz/all.sh BUILD SECONDS [NAME...]; import:nccl is the target of importers with one format.
# Inputs found go to BUILD/corpus/NAME, what crashed to BUILD/corpus/NAME.found. Status 1 if there is any.
set -u
build=$1
seconds=$2
shift 2
TIMEFORMAT='%U %S'
if [ $# = 0 ]; then
    for file in tests/fuzz/fuzz_*.c; do
        name=${file##*/fuzz_}
        name=${name%.c}
        [ "$name" = import ] || set -- "$@" "$name"
    done
    while IFS= read -r format; do
        set -- "$@" "import:$format"
    done < <(sed -n 's/^FORMAT(\([a-z0-9_]*\),.*/\1/p' src/import/formats.def)
fi

one() { # so many seconds by the wall, which are at most as many of a processor; $cpu grows by those
    local wall=$1 used
    used=$({ time nice -n 15 "$build/fuzz/tests/fuzz/fuzz_$target" -rss_limit_mb=2048 -timeout=10 -print_final_stats=1 \
        -max_total_time="$wall" -artifact_prefix="$found/" "${words[@]}" "$corpus" "tests/fuzz/corpus/$target" >"$log" 2>&1; } 2>&1)
    cpu=$(awk -v cpu="$cpu" '{print cpu + $1 + $2}' <<<"$used")
    inputs=$((inputs + $(awk '/^stat::number_of_executed_units/ {n = $2} END {print n + 0}' "$log")))
    [ "$first" ] || first=$(sed -n 's/.*INITED cov: \([0-9]*\).*/\1/p' "$log")
    last=$(sed -n 's/^#.*DONE *cov: \([0-9]*\).*/\1/p' "$log")
}

bad=0
echo '| target | CPU seconds | inputs | edges at first | at the end | found |'
echo '|---|---|---|---|---|---|'
for name in "$@"; do
    target=${name%%:*}
    export FUZZ_FORMAT=${name#"$target"}
    FUZZ_FORMAT=${FUZZ_FORMAT#:}
    [ "$FUZZ_FORMAT" ] || unset FUZZ_FORMAT
    corpus=$build/corpus/${name/:/_}
    found=$corpus.found
    log=$corpus.log
    words=()
    [ ! -s "$build/corpus/$target.dict" ] || words=(-dict="$build/corpus/$target.dict")
    mkdir -p "$corpus" "$found"
    cpu=0 inputs=0 first='' last=''
    while left=$(awk -v cpu="$cpu" -v seconds="$seconds" 'BEGIN {print cpu < seconds ? int(seconds - cpu) + 1 : 0}') && [ "$left" -gt 0 ]; do
        one "$left"
        [ -z "$(ls -A "$found")" ] && [ "$last" ] || break
    done
    n=$(find "$found" -type f | wc -l)
    [ "$n" = 0 ] && [ "$last" ] || bad=1
    printf '| %s | %.0f | %s | %s | %s | %s |\n' "$name" "$cpu" "$inputs" "${first:-?}" "${last:-?}" "$n"
done
exit $bad

#!/bin/bash
# Run the tests. `make test` and `make check` build what they need first.
#
#   tests/run.sh [--check | --coverage | --quick-lint | --lint] [--update] [--slowest] [--no-skip] [PATTERN]
#
# PATTERN        only tests whose name contains it
# --check        what `make check` runs: tests/unit and tests/lint/*.sh except what is marked exhaustive, and the shell tests of $core below
# --coverage     all unit tests and the shell tests of $core, by the programs of BUILD/coverage: what `make coverage` runs
# --quick-lint   only tests/lint/*.sh;  --lint: also tests/lint/full/*.sh
# --update       overwrite the golden files: CASE.out and CASE.err of shell tests, and what unit tests write with RP_UPDATE=1
# --no-skip      a test that is skipped is one that failed
# --slowest      print the twenty tests that took the most processor time; BUILD/test/times lists all of them
#
# A test is a TAP program (tests/unit, tests/ops, tests/cuda), a fuzz target with its corpus (tests/fuzz) or a shell script (tests/cli/TOPIC,
# tests/valgrind, tests/build, tests/lint). A shell test runs in a scratch directory of its own with HOME and the XDG directories in it;
# REPRO is the binary, TEST_DIR the directory of the script, TOP the repository and BUILD the build directory; TEST_PORT is the first of four
# ports that no other test of this run listens on. It passes with status 0, or the one in CASE.exit, and with the outputs in CASE.out and CASE.err
# where these exist. Status 77 skips it; its last line is the reason.
#
# A test may set these in its first 30 lines:
#   # timeout: SECONDS   at least 300, which others have
#   # serial             run after the others, with one more of its kind at most
#   # exhaustive         takes seconds of processor time to try everything: not in --check (in C: a comment of its own)
#   # shims: 800 700     for tests/cuda: run once with each BUILD/shim/NAME/libcuda.so.1 (default: 800)
# LONG=1 in the environment multiplies the timeouts by twelve, for the tests that then do more.
#
# The output is one line for each failure and each skip, with the log; the last line is "N passed, N failed, N skipped". Status 1 if any failed.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
TOP=$PWD
BUILD=${BUILD:-$TOP/build}
JOBS=${JOBS:-$(nproc)}
OUT=${OUT:-$BUILD/test} # set for the calls of itself
export TOP BUILD OUT LC_ALL=C TZ=UTC
# A small quarantine and short stacks of allocations: a fifth of the processor time of the unit tests.
export ASAN_OPTIONS=abort_on_error=0:detect_leaks=1:quarantine_size_mb=16:malloc_context_size=10 UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1

# jq 1.6 takes 20 ms of processor time to start, gojq 4, and the shell tests start it seven thousand times. It sorts keys unasked. Tests of what
# strangers run with their jq set PATH to STOCK_PATH.
export STOCK_PATH=${STOCK_PATH:-$PATH}
if [ ! -x "$OUT/bin/jq" ] && command -v gojq >/dev/null; then
    mkdir -p "$OUT/bin"
    # shellcheck disable=SC2016 # for the script
    printf '%s\n' '#!/bin/sh' 'case $1 in -S) shift ;; -cS) shift && set -- -c "$@" ;; esac' 'exec gojq "$@"' >"$OUT/bin/jq"
    chmod +x "$OUT/bin/jq"
fi
PATH=$OUT/bin:$STOCK_PATH

# --- one test -------------------------------------------------------------------------------------------------------------
result() { # PASSED FAILED SKIPPED
    echo "$1 $2 $3" >"$OUT/result/$slug"
}
fail() { # WHY
    echo "FAIL $id: $1 (log: $log)"
}

tap_result() { # STATUS
    local plan ok bad skip
    plan=$(sed -n 's/^1\.\.\([0-9]*\)$/\1/p' "$log" | head -n 1)
    skip=$(grep -c '^ok .* # SKIP ' "$log")
    ok=$(($(grep -c '^ok ' "$log") - skip))
    bad=$(grep -c '^not ok ' "$log")
    sed -n 's/^ok [0-9]* - \(.*\) # SKIP \(.*\)$/\1: \2/p' "$log" | sed "s|^|SKIP $id |"
    [ "$bad" = 0 ] || fail "$(sed -n 's/^not ok [0-9]* - //p' "$log" | paste -sd' ')"
    if [ "$1" = 124 ] || [ "$1" = 137 ]; then
        fail "no end within $limit s"
        bad=$((bad + 1))
    elif [ -z "$plan" ] || [ $((ok + bad + skip)) -ne "$plan" ]; then
        fail "ended after $((ok + bad + skip)) of ${plan:-an unknown number of} tests with status $1"
        bad=$((bad + 1))
    elif [ "$1" != 0 ] && [ "$bad" = 0 ]; then
        fail "status $1 although every test passed"
        bad=1
    fi
    result "$ok" "$bad" "$skip"
}

run_program() { # VARIANT SOURCE ARGUMENT...
    local variant=$1 shim=800 program status=0 plain=
    case $variant in [0-9]* | checked* | ptx) shim=$variant variant=native ;; esac
    program=$BUILD/$variant/${2%.c}
    shift 2
    # Sanitizers want their address ranges free; where personality(2) is not allowed they mostly get them anyway.
    setarch -R true 2>/dev/null && plain="setarch -R"
    # shellcheck disable=SC2086
    RP_SHIM_LIBRARY=$BUILD/shim/$shim/libcuda.so.1 timeout -k 5 "$limit" $plain "$program" "$@" </dev/null >"$log" 2>&1 || status=$?
    if [ $# = 0 ]; then
        tap_result $status
    elif [ $status = 0 ]; then
        result 1 0 0
    else
        fail "status $status at $(grep '^tests/' "$log" | tail -n 1)"
        result 0 1 0
    fi
}

compare() { # EXPECTED GOT
    [ -f "$1" ] || return 0
    if [ -n "${UPDATE:-}" ]; then
        cp "$2" "$1"
        return 0
    fi
    diff -u "$1" "$2" >"$scratch/diff" 2>&1 && return 0
    cat "$scratch/diff" >>"$log"
    fail "differs from ${1#"$TOP"/}"
    sed -n '3,22s/^/    /p' "$scratch/diff" # where only the output is kept, the log is not
    return 1
}

run_script() { # SCRIPT
    local status=0 want=0 case=$TOP/${1%.sh} scratch shell
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/repro-test.XXXXXX")
    mkdir -p "$scratch/work" "$scratch/home" "$scratch/tmp"
    [ ! -f "$case.exit" ] || want=$(cat "$case.exit")
    case $(head -n 1 "$1") in *bash*) shell="bash" ;; *) shell="sh" ;; esac
    (
        cd "$scratch/work" || exit 1
        unset "${!REPRO_@}" "${!XDG_@}" COLUMNS CUDA CUDA_HOME RP_GPU_TIMEOUT_MS RP_GPU_TOOL MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES T V
        export REPRO=${TEST_REPRO:-$BUILD/repro} TEST_DIR=${case%/*} HOME=$scratch/home TMPDIR=$scratch/tmp TERM=dumb
        export TEST_PORT=$((20000 + (RUN_OF_TESTS * 16 + SLOT) % 3000 * 4)) # below those that the kernel gives to connections
        export XDG_CONFIG_HOME=$HOME/.config XDG_CACHE_HOME=$HOME/.cache XDG_DATA_HOME=$HOME/.local/share XDG_STATE_HOME=$HOME/.local/state
        exec timeout -k 5 "$limit" $shell "$TOP/$1"
    ) </dev/null >"$scratch/out" 2>"$scratch/err" || status=$?
    cat "$scratch/out" "$scratch/err" >"$log"
    if [ $status = 77 ] && [ "$want" != 77 ]; then
        echo "SKIP $id: $(tail -n 1 "$log")"
        result 0 0 1
    elif [ $status = 124 ] || [ $status = 137 ]; then
        fail "no end within $limit s"
        result 0 1 0
    elif [ $status != "$want" ]; then
        fail "status $status, expected $want: $(tail -n 1 "$log" | cut -c 1-200)"
        result 0 1 0
    elif compare "$case.out" "$scratch/out" && compare "$case.err" "$scratch/err"; then
        result 1 0 0
    else
        result 0 1 0
    fi
    chmod -R u+rwX "$scratch" 2>/dev/null
    rm -rf "$scratch"
}

run_one() { # VARIANT:FILE
    id=$1
    slug=$(tr / _ <<<"$id")
    log=$OUT/log/$slug.log
    local variant=${id%%:*} file=${id#*:} begin=$EPOCHREALTIME
    limit=$(head -n 30 "$file" | sed -n '/^[#/ ]/s/.*timeout: \([0-9][0-9]*\).*/\1/p' | head -n 1)
    [ "${limit:-0}" -gt 300 ] || limit=300
    [ "${LONG:-0}" = 0 ] || limit=$((limit * 12))
    echo "0 1 0" >"$OUT/result/$slug" # until it is known better
    case $file in
    *.sh) run_script "$file" ;;
    tests/fuzz/fuzz_*)
        name=${file##*/fuzz_}
        run_program "$variant" "$file" "tests/fuzz/corpus/${name%.c}"
        ;;
    *) run_program "$variant" "$file" ;;
    esac
    { echo "$begin $EPOCHREALTIME $id" && times; } >"$OUT/times.$$" # not into a pipe: that would be another process
    awk 'NR == 1 { wall = $2 - $1; id = $3 }
        NR > 1 { for (i = 1; i <= 2; i++) { split($i, t, /[ms]/); cpu += 60 * t[1] + t[2] } }
        END { printf "%8.2f %8.2f %s\n", cpu, wall, id }' "$OUT/times.$$" >>"$OUT/times"
    rm "$OUT/times.$$"
}
if [ "${1:-}" = --one ]; then
    run_one "$2"
    exit 0
fi

# --- all tests ------------------------------------------------------------------------------------------------------------
groups="ptx sass cuda ops build lint unit tsan fuzz cli" # the longest tests first
pattern='' core='' slowest='' no_skip='' units=asan
usage="usage: tests/run.sh [--check | --coverage | --quick-lint | --lint] [--update] [--slowest] [--no-skip] [PATTERN]"
while [ $# -gt 0 ]; do
    case $1 in
    --check | --coverage)
        groups="lint unit cli"
        [ "$1" = --check ] || { groups="unit cli" units=coverage OUT=$BUILD/coverage/test && export TEST_REPRO=$BUILD/coverage/repro GCOV_ERROR_FILE=/dev/null; }
        core="capture/document cli/exit_status cli/help cli/usage_errors compare/verdicts data/hostile_archives import/export_mllog
            ledger/attempts recipe/origins recipe/refused report/page run/interrupt_early run/result sign/counter verify/policy verify/verdicts"
        for name in $core; do
            [ -f "tests/cli/$name.sh" ] || { echo "tests/run.sh: tests/cli/$name.sh, in the list of --check, does not exist" >&2 && exit 2; }
        done
        ;;
    --quick-lint) groups=lint ;;
    --lint) groups="lint full" ;;
    --update) export UPDATE=1 RP_UPDATE=1 ;;
    --slowest) slowest=1 ;;
    --no-skip) no_skip=1 ;;
    -*) echo "$usage" >&2 && exit 2 ;;
    *) pattern=$1 ;;
    esac
    shift
done

members() { # GROUP: the ids of its tests
    local f variants variant group=$1
    case $1 in
    lint) variants="sh" && set -- tests/lint/*.sh ;;
    full) variants="sh" && set -- tests/lint/full/*.sh ;;
    unit) variants=$units && set -- tests/unit/test_*.c ;;
    tsan) variants=tsan && set -- tests/unit/test_pool*.c tests/unit/test_mesh*.c ;;
    ops) variants=native && set -- tests/ops/test_*.c ;;
    cuda) variants=native && set -- tests/cuda/test_*.c ;;
    ptx) variants="sh" && set -- tests/ptx/*.sh ;;
    sass) variants="sh" && set -- tests/sass/*.sh ;;
    fuzz) variants=asan && set -- tests/fuzz/fuzz_*.c ;;
    cli)
        variants="sh" && set -- tests/valgrind/*.sh tests/cli/*/*.sh # the longest first
        # shellcheck disable=SC2046,SC2086 # several words
        [ -z "$core" ] || set -- $(printf 'tests/cli/%s.sh ' $core)
        ;;
    build) variants="sh" && set -- tests/build/*.sh ;;
    esac
    for f; do
        [ -f "$f" ] && [[ $f = *"$pattern"* ]] || continue
        [ -z "$core" ] || [ "$group" = cli ] || [ "$units" = coverage ] || ! head -n 30 "$f" | grep -q '^[# /*]*exhaustive[ */]*$' || continue
        [ "$group" != cuda ] || variants=$(head -n 30 "$f" | sed -n '/^[#/ ]/s/.*shims: \([a-z0-9 ]*[a-z0-9]\).*/\1/p')
        for variant in ${variants:-native}; do
            [ "${variant#checked}" = "$variant" ] || [ "${LONG:-0}" != 0 ] || continue # tests/sass checks every access of that code, compiled
            echo "$variant:$f"
        done
    done
}

mkdir -p "$OUT"
exec 8>"$OUT/.lock"
if ! flock -n 8; then # another run uses that directory
    OUT=$BUILD/test.$$
    trap 'rm -rf "$OUT/result"' EXIT
fi
rm -rf "$OUT/result" "$OUT/log" "$OUT/times" "$OUT/counts"
mkdir -p "$OUT/result" "$OUT/log"
git -c safe.directory='*' ls-files --others --exclude-standard >"$OUT/untracked" 2>/dev/null || rm -f "$OUT/untracked" # for tests/build/tree.sh
# One queue for all groups, so that no processor waits for the last test of a group; then the tests that run alone. Some tests wait for children
# and time limits: two more at a time than there are processors. They do not inherit the lock, which one that stays behind would keep.
together=()
alone=()
for group in $groups; do
    mapfile -t ids < <(members "$group")
    for id in "${ids[@]}"; do
        if head -n 30 "${id#*:}" | grep -q '^[# *]*serial$'; then alone+=("$id"); else together+=("$id"); fi
    done
done
export RUN_OF_TESTS=$$
[ ${#together[@]} = 0 ] || printf '%s\0' "${together[@]}" | xargs -0 -n 1 -P $((JOBS + 2)) --process-slot-var=SLOT tests/run.sh --one 8>&-
[ ${#alone[@]} = 0 ] || printf '%s\0' "${alone[@]}" | xargs -0 -n 1 -P 2 --process-slot-var=SLOT tests/run.sh --one 8>&-
[ ! -f "$OUT/times" ] || awk '{split($3, part, "/"); group = part[2]; cpu[group] += $1; files[group]++}
    END {for (g in cpu) printf "  TEST    %s: %d files, %.0f CPU s\n", g, files[g], cpu[g]}' "$OUT/times" | sort
if [ -f "$OUT/times" ]; then
    sort -rn -o "$OUT/times" "$OUT/times"
    [ -z "$slowest" ] || { printf '%8s %8s\n' "CPU s" "s" && head -n 20 "$OUT/times"; }
fi
read -r passed failed skipped < <(cat "$OUT"/result/* 2>/dev/null | awk '{p += $1; f += $2; s += $3} END {print p + 0, f + 0, s + 0}')
[ $((passed + failed + skipped)) -gt 0 ] || echo "no test matches '$pattern'"
echo "$passed passed, $failed failed, $skipped skipped" | tee "$OUT/counts"
[ "$failed" = 0 ] && [ $((passed + skipped)) -gt 0 ] && { [ -z "$no_skip" ] || [ "$skipped" = 0 ]; }

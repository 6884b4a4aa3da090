#!/bin/sh
# env/jobs has every form of `repro launch` as a file, as the program prints it. With --update the files are written again.
. "$TOP/tests/common.inc"
kinds=$("$REPRO" help launch | sed -n 's/^  \([a-z0-9-]*\): .*/\1/p')
[ "$(echo "$kinds" | wc -w)" -ge 12 ] || fail "the help lists only '$kinds'"
mkdir jobs
for kind in $kinds; do
    exit_of 0 "$REPRO" launch "$kind" --nodes 2 --ranks-per-node 4 --recipe bert_fp32 --image registry.example.com/repro:cuda
    case $(head -c 2 out.txt) in '#!') mv out.txt "jobs/$kind.sh" ;; *) mv out.txt "jobs/$kind.yaml" ;; esac
done
if [ "${UPDATE:-}" ]; then
    rm -rf "$TOP/env/jobs"
    cp -r jobs "$TOP/env/jobs"
fi
diff -r "$TOP/env/jobs" jobs >&2 || fail "env/jobs differs from what 'repro launch' prints; tests/run.sh --update cli/launch/files writes it"

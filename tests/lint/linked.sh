#!/bin/bash
# The layers of src/README.md hold at link time: no object of a folder uses a function or data that a later folder defines. layers.sh checks
# includes, which an extern declaration evades. The objects are those that BUILD/repro was linked from (BUILD/static, as in prefix.sh) and,
# after a build with CUDA=1, those of repro-gpu. src/main.c is above all folders. Generated objects (gen/) define what base/build.h and
# base/embed.h declare and are left out.
set -eu
cd "$TOP"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
awk '/^```layers$/ {on = 1; next} /^```/ {on = 0} on' src/README.md >"$tmp/layers"

objects() { # VARIANT: of the sources that exist; other objects there are stale
    for file in src/*.c src/*/*.c src/*/*/*.c; do
        [ ! -f "$BUILD/$1/${file%.c}.o" ] || echo "$BUILD/$1/${file%.c}.o"
    done
}
check() { # OBJECT...: the number of references between folders, then one line for each that is not allowed
    nm -gA "$@" | awk '
        NR == FNR { layer[$1] = NR; next }
        {
            file = $1; sub(/:[^:]*$/, "", file); sub(/.*\/src\//, "", file)
            folder = file ~ /\// ? substr(file, 1, index(file, "/") - 1) : "main.c"
            layer["main.c"] = 1000
            if ($(NF - 1) ~ /^[Uwv]$/) uses[file " " $NF] = folder
            else { home[$NF] = folder; from[$NF] = file }
        }
        END {
            for (use in uses) {
                split(use, u, " ")
                if (!(u[2] in home) || home[u[2]] == uses[use]) continue
                n++
                if (layer[home[u[2]]] > layer[uses[use]])
                    printf "%s uses %s of %s: %s comes later in the list of src/README.md\n", u[1], u[2], from[u[2]], home[u[2]]
            }
            print n + 0
        }' "$tmp/layers" - | sort
}
bad=0
for variant in static gpu; do
    mapfile -t built < <(objects $variant)
    [ ${#built[@]} -gt 0 ] || [ $variant = static ] || continue
    found=$(check "${built[@]}")
    [ "$(head -n 1 <<<"$found")" -gt 200 ] || { echo "$variant: too few references seen: this check is broken" && exit 1; }
    [ "$(wc -l <<<"$found")" = 1 ] || { tail -n +2 <<<"$found" && bad=1; }
done

# Proof that the check finds something: a function and data of the last folder, used in the first one.
mkdir -p "$tmp/src/base" "$tmp/src/cli"
echo 'extern const int rp_planted_data; int rp_planted(void); int rp_low(void); int rp_low(void) { return rp_planted() + rp_planted_data; }' |
    gcc -x c -c - -o "$tmp/src/base/low.o"
echo 'extern const int rp_planted_data; const int rp_planted_data = 1; int rp_planted(void); int rp_planted(void) { return 1; }' |
    gcc -x c -c - -o "$tmp/src/cli/high.o"
planted=$(check "$tmp/src/base/low.o" "$tmp/src/cli/high.o" | grep -c "^base/low.o uses rp_planted.* of cli/high.o: cli comes later" || :)
[ "$planted" = 2 ] || { echo "of two planted references to a later folder $planted were found" && exit 1; }
exit $bad

#!/bin/bash
# Names that lead to one place: no two structs, unions or enums share a tag, and no two sources share a basename. The
# lists are the exceptions; one that is no longer needed is an error too.
set -eu
cd "$TOP"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# Basenames whose folders make the difference plain.
cat >"$tmp/basename.allowed" <<'END'
main.c      the two programs: src/main.c, gpu/main.c
cpu.c       the backend and the probe
isa.c       every instruction set, those of this CPU
selftest.c  of every backend, of the CPU
END
cat >"$tmp/tag.allowed" </dev/null

find src -name '*.c' | sort >"$tmp/sources"
find src -name '*.[ch]' | sort >"$tmp/all"
basenames() { # < FILES: "NAME FILE..." of each basename that several files have
    awk '{ name = $0; sub(/.*\//, "", name); n[name]++; where[name] = where[name] " " $0 }
        END { for (name in n) if (n[name] > 1) print name where[name] }'
}
tags() { # < FILES: "TAG FILE..." of each tag that several files define
    xargs awk '/^(struct|union|enum) [a-z_0-9]+ .*[{]$/ || /^(struct|union|enum) [a-z_0-9]+ [{]/ {
            if (!seen[$2, FILENAME]++) { n[$2]++; where[$2] = where[$2] " " FILENAME } }
        END { for (tag in n) if (n[tag] > 1) print tag where[tag] }'
}
bad=0
check() { # KIND MESSAGE: found names against the allowed ones
    sort -o "$tmp/$1.found" "$tmp/$1.found"
    awk '{print $1}' "$tmp/$1.allowed" | sort >"$tmp/names"
    join -v 2 "$tmp/names" "$tmp/$1.found" | sed "s/^/$2: /" >"$tmp/new"
    join -v 1 "$tmp/names" "$tmp/$1.found" | sed "s/^/no longer needed in the list of this lint: /" >>"$tmp/new"
    [ ! -s "$tmp/new" ] || { cat "$tmp/new" && bad=1; }
}
basenames <"$tmp/sources" >"$tmp/basename.found"
check basename "several sources have one basename"
tags <"$tmp/all" >"$tmp/tag.found"
check tag "several structs have one tag"

# Proof that each check finds something.
mkdir -p "$tmp/a" "$tmp/b"
for file in a/one b/one a/two b/two; do
    printf 'struct planted {\n    int x;\n};\n' >"$tmp/$file.c"
done
find "$tmp/a" "$tmp/b" -name '*.c' >"$tmp/planted"
found=$(for kind in basenames tags; do $kind <"$tmp/planted" | awk '{print $1, NF - 1}'; done | sort | paste -sd' ')
[ "$found" = "one.c 2 planted 4 two.c 2" ] || { echo "of the planted names this was found: $found" && exit 1; }
exit $bad

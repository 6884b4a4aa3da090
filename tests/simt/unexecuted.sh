#!/bin/bash
# unexecuted.sh DIRECTORY KERNEL TEXT: the instructions of a kernel (rp_add) that no process executed which SASS_COVERAGE=DIRECTORY has a file of,
# from nvdisasm's text of its module (BUILD/sass/sm_90/NAME.sass): what a line of not_executed.txt has to give a reason for.
set -eu
cat "$1"/* | tr -d '\0' | awk -v kernel="$2" '
FNR == NR && $2 == kernel && hits == "" { hits = $4 }
FNR == NR && $2 == kernel { for (i = 1; i <= length($4); i++) if (substr($4, i, 1) == "1") done[i] = 1 }
FNR == NR { next }
/^\t\.section\t/ { is_in = index($0, ".text." kernel ",") > 0; n = 0 }
is_in && /^ *\/\*[0-9a-f]+\*\// && ++n && !done[n] && substr(hits, n, 1) != "-" { sub(/^ */, ""); print substr(hits, n, 1) " " $0 }
' - "$3"

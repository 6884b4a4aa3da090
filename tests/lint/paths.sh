#!/bin/bash
# No path or name of one machine and no archive's or registry's host in what is committed; no binary of ours, no private key.
set -eu
cd "$TOP"
[ -e .git ] || { echo "no git checkout here: which files are committed is unknown" && exit 77; }
git() { command git -c safe.directory='*' "$@"; }
bad=0
check() { # WHAT PATTERN PATHSPEC...
    local what=$1 pattern=$2 found
    shift 2
    found=$(git grep -nIE "$pattern" -- "$@" | cut -c 1-160 || :)
    [ -z "$found" ] || { echo "$what:" && echo "$found" && bad=1; }
}
# The patterns are written so that they do not match themselves.
check "a path of one machine" '(^|[^A-Za-z0-9_.])/(work|root)/[a-z]' . ':!tests/hosts' ':!*.txt' ':!results/*' ':!tests/lint/paths.sh'
check "a host of an archive or a registry" '(deb|snapshot|security|ftp)[.]debian[.]org|archive[.]ubuntu|[p]ypi[.]org|files[.]pythonhosted|[r]egistry[.]npmjs' . ':!results/*'
check "a private key" '^-----BEGIN ([A-Z]+ )?PRIVATE[ ]KEY-----$' .
found=$(git ls-files -s | awk '$1 == "120000" || $1 == "160000"' || :)
[ -z "$found" ] || { echo "links or submodules are committed: $found" && bad=1; }
exit $bad

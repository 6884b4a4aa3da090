#!/bin/bash
# Functions that have bitten everybody, and exits or prints outside main.c and cli/.
set -eu
cd "$TOP"
bad=0
say() { echo "$1" && bad=1; }
# Comments and strings are blanked before the search.
code() { sed -e 's/\\"//g' -e 's/"[^"]*"/""/g' -e 's://.*::' -e 's:/\*.*\*/::g' -e '/^ *\/\?\*[ *]/d' "$1"; }
for file in src/*.c src/*/*.[ch] src/*/*/*.[ch]; do
    found=$(code "$file" | grep -nE '\b(strcpy|strcat|stpcpy|sprintf|vsprintf|gets|strtok|rand|srand|random|drand48|atoi|atol|atof|alloca|tmpnam|mktemp|tempnam|system|popen|setjmp|longjmp|asctime|ctime|localtime|gmtime|strerror_l|scanf|bcopy|signal) *\(' | grep -vE 'signal\([^,]*, SIG_(IGN|DFL)\)' || :)
    [ -z "$found" ] || say "$file: banned: $found"
    case $file in src/main.c | src/cli/*) continue ;; esac
    found=$(code "$file" | grep -nE '\b(printf|puts|putchar|exit|fprintf *\( *stdout) *\(' || :)
    [ -z "$found" ] || say "$file: only main.c and cli/ print or exit: $found"
done
exit $bad

#!/bin/bash
# House style: sources of about 600 lines at most (700 is where this check objects).
set -eu
cd "$TOP"
wc -l src/*.c src/*/*.[ch] src/*/*/*.[ch] tests/*/*.[ch] | awk '$2 != "total" && $1 > 700 {print $2 ": " $1 " lines"; bad = 1} END {exit bad}'

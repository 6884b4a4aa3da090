#!/bin/sh
# Print a recorded machine as a tree.txt, the input of tests/unit/test_capture_hosts.c.
# usage: repro capture --record DIR && tests/hosts/tree.sh DIR >tests/hosts/NAME/tree.txt; read it before it is committed, name the host
# in the test, run that with RP_UPDATE=1 and read what it wrote.
set -eu
cd "$1"
find . -mindepth 1 \( -type l -o -type f -o -type d -empty \) | LC_ALL=C sort | while IFS= read -r path; do
    name=${path#.}
    case $name in *[[:space:]]*) echo "tree.sh: '$name' has blanks in its name, which tree.txt cannot say" >&2 && exit 1 ;; esac
    if [ -L "$path" ]; then
        echo "@ $name -> $(readlink "$path")"
    elif [ -d "$path" ]; then
        echo "@ $name dir"
    elif [ ! -s "$path" ]; then
        echo "@ $name"
    elif [ "$name" = /proc/self/environ ]; then
        echo "@ $name nul"
        tr '\000' '\n' <"$path" | sed 's/^/| /'
    elif LC_ALL=C grep -q '[^[:print:][:space:]]' "$path" || [ "$(tail -c 1 "$path")" ]; then
        echo "@ $name hex=$(od -An -v -tx1 "$path" | tr -d ' \n')"
    else
        echo "@ $name"
        sed 's/^/| /' "$path"
    fi
done

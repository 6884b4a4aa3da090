#!/bin/sh
# What a host runs to get the program of a job: ssh.c sends it as one line, after a line that sets these variables, and reads the answers.
#   nonce   begins every answer: a login shell may print before    size, digest   of the program: bytes, SHA-256
#   keep    1: the program stays in the cache of this host
# Answers: here SYSTEM MACHINE SECONDS have|need, copied, error KIND TEXT. After `need` the program follows on standard input.
# Comments and indentation are dropped and lines joined by blanks: a command ends with a semicolon.
# shellcheck disable=SC2154 # the variables above

umask 077;
say() { printf '%s %s\n' "$nonce" "$*"; };
cache=${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/repro;
about="$(uname -s 2>/dev/null || echo -) $(uname -m 2>/dev/null || echo -) $(date +%s 2>/dev/null || echo 0)";

# The same program may be here already.
for file in "$cache/repro-$digest" "$(command -v repro 2>/dev/null)"; do
    if [ -f "$file" ] && [ "$(sha256sum <"$file" 2>/dev/null)" = "$digest  -" ] && "$file" version >/dev/null 2>&1 </dev/null; then
        say here "$about" have;
        exec "$file" --host-process "$nonce";
    fi;
done;

# A directory of its own, where files may be executed.
if [ "$keep" = 1 ]; then set -- "$cache"; else set -- "${TMPDIR:-/tmp}" "${XDG_RUNTIME_DIR:-}" "$cache" /var/tmp /dev/shm; fi;
tried='' directory='';
for base; do
    if [ -z "$base" ] || { [ "$base" = "$cache" ] && { mkdir -p "$cache" 2>/dev/null; [ ! -d "$cache" ]; }; }; then
        continue;
    fi;
    directory=$base/repro-$nonce file=$base/repro-$nonce/repro;
    if mkdir "$directory" 2>/dev/null; then
        if { printf '%s\n' '#!/bin/sh' 'exit 0' >"$file" && chmod 700 "$file" && "$file"; } 2>/dev/null; then break; fi;
        rm -f "$file";
        rmdir "$directory";
        tried="$tried, $base: its files cannot be executed";
    else
        tried="$tried, $base: no directory can be made there";
    fi;
    directory='';
done;
if [ -z "$directory" ]; then say error place "${tried#, }"; exit 1; fi;
trap 'rm -f "$file"; rmdir "$directory"' 0;
trap 'exit 1' 1 2 15;

# busybox's head reads more than it prints: nothing else may follow the program until this answers.
say here "$about" need;
why=$(head -c "$size" 2>&1 >"$file");
if [ "$(($(wc -c <"$file")))" != "$size" ]; then say error copy "$base: ${why:-the copy is not whole}"; exit 1; fi;
why=$("$file" version 2>&1 >/dev/null </dev/null);
status=$?;
if [ "$status" != 0 ]; then say error start "status $status: $why"; exit 1; fi;
trap - 0;
if [ "$keep" = 1 ]; then
    mv -f "$file" "$cache/repro-$digest" && rmdir "$directory" && file=$cache/repro-$digest directory='';
fi;
say copied;
exec "$file" --host-process "$nonce" ${directory:+"$directory"};

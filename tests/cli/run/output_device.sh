#!/bin/sh
# A bundle is not written to a device, a pipe, a socket or a folder of that name: it is refused before anything else, with --force too, also
# behind a link, and what is there stays.
. "$TEST_DIR/common.inc"
mkfifo pipe
mkdir folder
ln -s /dev/full link
make_bundle a.repro.tar.zst
"$REPRO" key new -o other.key >key.txt
mknod node c 1 3 2>node.txt || ln -s /dev/null node
lines=$(find "$XDG_CONFIG_HOME" -name 'ledger-*' -exec cat {} + | wc -l)
refused() { # COMMAND...
    for to in /dev/null /dev/full /dev/stdout /dev/tty pipe link node; do
        [ -e "$to" ] || continue
        for force in "" --force; do
            # shellcheck disable=SC2086 # none or one word
            timeout 20 "$REPRO" "$@" -o $to $force </dev/null 2>err.txt | cat >out.txt || :
            says "regular file"
            [ ! -s out.txt ] || fail "$1 -o $to: $(head -c 100 out.txt)"
        done
    done
}
refused run bert_tiny_fp32 --steps 1
words
refused replicate a.repro.tar.zst
refused sign a.repro.tar.zst --key other.key
words
[ -p pipe ] && [ -c node ] && [ -L link ] || fail "something was replaced"
[ "$(find "$XDG_CONFIG_HOME" -name 'ledger-*' -exec cat {} + | wc -l)" = "$lines" ] || fail "a refusal is an attempt"

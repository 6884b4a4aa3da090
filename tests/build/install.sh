#!/bin/bash
# `make install` with PREFIX and DESTDIR: exactly these files, and the installed program is the built one.
set -eu
make -s -C "$TOP" BUILD="$BUILD" install PREFIX=/opt/r DESTDIR="$PWD/root"
(cd root && find . -type f | sort) >files.txt
{
    echo ./opt/r/bin/repro
    echo ./opt/r/share/bash-completion/completions/repro
    echo ./opt/r/share/doc/repro/LICENSE
    echo ./opt/r/share/doc/repro/LICENSES.txt
    echo ./opt/r/share/fish/vendor_completions.d/repro.fish
    echo ./opt/r/share/man/man1/repro.1
    (cd "$TOP/recipes" && for f in *.*; do echo "./opt/r/share/repro/recipes/$f"; done)
    echo ./opt/r/share/zsh/site-functions/_repro
} | sort >expected.txt
diff -u expected.txt files.txt
cmp root/opt/r/bin/repro "$REPRO"
[ -x root/opt/r/bin/repro ]
bash -n root/opt/r/share/bash-completion/completions/repro
grep -q '^\.TH' root/opt/r/share/man/man1/repro.1
if find root -type f ! -perm -444 | grep .; then
    echo "installed files that not everybody can read" >&2
    exit 1
fi

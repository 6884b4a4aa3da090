#!/bin/sh
# Archives that GNU tar makes with bad intent: refused with status 4, nothing outside the store, nothing left inside.
. "$TEST_DIR/common.inc"
mkdir in
echo data >in/a.tfrecord
refused() { # ARCHIVE
    exit_of 4 "$REPRO" data unpack "$1"
    words
    [ -z "$(find store -mindepth 1 2>/dev/null)" ] || { find store >&2; fail "$1: something is left in the store"; }
    [ ! -e outside ] || fail "$1: written outside"
    exit_of 4 "$REPRO" data list "$1"
    words
}
tar -cf up.tar --transform 's,^,../../,' -C in a.tfrecord 2>/dev/null
refused up.tar
tar -cPf absolute.tar "$PWD/in/a.tfrecord"
refused absolute.tar
ln -s /etc/passwd in/link
tar -czf link.tar.gz -C in link
refused link.tar.gz
ln -sfn ../../outside in/link
tar -cf link2.tar -C in a.tfrecord link
refused link2.tar
ln in/a.tfrecord in/b.tfrecord
tar -cf hard.tar -C in a.tfrecord b.tfrecord
refused hard.tar
mkfifo in/pipe
tar -cf fifo.tar -C in pipe
refused fifo.tar
tar -cf twice.tar --hard-dereference -C in a.tfrecord a.tfrecord
refused twice.tar
cp in/a.tfrecord in/A.TFRECORD
tar -cf case.tar -C in a.tfrecord A.TFRECORD
refused case.tar
truncate -s 1T in/hole 2>/dev/null && tar -cSf sparse.tar -C in hole && exit_of 4 "$REPRO" data unpack sparse.tar
head -c 2048 /dev/zero >zeros.tar
refused zeros.tar
zip -q -j -e -P password locked.zip in/a.tfrecord
refused locked.zip
printf '7z\274\257\047\034\000\004' >x.7z && head -c 100 /dev/zero >>x.7z
refused x.7z
mkdir z && head -c 40000000 /dev/zero >z/zeros
tar -cf - -C z zeros | zstd -q -19 >bomb.tar.zst
refused bomb.tar.zst
tar -cf - -C in a.tfrecord | gzip | gzip >nested.tar.gz.gz
refused nested.tar.gz.gz
echo hello >text
refused text
tar -czf good.tar.gz -C in a.tfrecord
head -c 90 good.tar.gz >cut.tar.gz
refused cut.tar.gz
exit_of 0 "$REPRO" data unpack good.tar.gz
[ "$(cat "$(cat out.txt)/a.tfrecord")" = data ] || fail "a good archive is not unpacked"
exit_of 3 "$REPRO" data unpack missing.tar

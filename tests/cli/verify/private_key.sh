#!/bin/sh
# The private key signs and stays where it is: encrypted ones open by descriptor, open modes are refused, no bundle holds it.
. "$TEST_DIR/common.inc"
need zstd
printf 'correct horse\n' >pass
printf 'wrong horse\n' >wrong
exit_of 0 "$REPRO" key new -o e.key --passphrase-fd 5 5<pass
sed -n '3,$p' out.txt >e.pem
tiny="--set measure.ceilings=false --threads 1 --steps 1 --set measure.warmup_steps=0 --set measure.repeats=1 --set train.accumulation_steps=1"
# shellcheck disable=SC2086
exit_of 0 "$REPRO" run resnet50_tiny_fp32 $tiny --key e.key --passphrase-fd 5 -o e.repro.tar.zst 5<pass
grep -q "correct horse" out.txt err.txt && fail "the passphrase was printed"
exit_of 0 "$REPRO" verify e.repro.tar.zst --trust e.pem
# shellcheck disable=SC2086
exit_of 2 "$REPRO" run resnet50_tiny_fp32 $tiny --key e.key --passphrase-fd 5 -o no.repro.tar.zst 5<wrong
words
[ ! -e no.repro.tar.zst ] || fail "a bundle without a key"
if command -v openssl >/dev/null; then # ours opens with openssl, and openssl's (PBKDF2) with ours
    openssl pkey -in e.key -passin file:pass -pubout | cmp - e.pem
    openssl genpkey -algorithm ed25519 -aes-256-cbc -pass file:pass -out o.key
    chmod 600 o.key
    openssl pkey -in o.key -passin file:pass -pubout >o.pem
    exit_of 0 "$REPRO" key show o.key --passphrase-fd 5 5<pass
    sed -n '3,$p' out.txt | cmp - o.pem
fi
"$REPRO" key new -o p.key >/dev/null
# shellcheck disable=SC2086
exit_of 0 "$REPRO" run resnet50_tiny_fp32 $tiny --key p.key -o p.repro.tar.zst
sed -n 2p p.key >private
grep -q -F -f private out.txt err.txt && fail "private bytes were printed"
zstd -dcq p.repro.tar.zst | grep -q -a -e PRIVATE -e "$(cut -c 30-60 private)" && fail "private bytes are in the bundle"
for mode in 640 604 666; do
    chmod "$mode" p.key
    # shellcheck disable=SC2086
    exit_of 2 "$REPRO" run resnet50_tiny_fp32 $tiny --key p.key -o no.repro.tar.zst
    says "chmod 600"
done

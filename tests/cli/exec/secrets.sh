#!/bin/sh
# What a command prints, and its words, are sealed without credentials and without what names a person; numbers stay.
# shellcheck disable=SC2086 # several words in $table and $option
. "$TEST_DIR/common.inc"
cat >tells.sh <<'END'
#!/bin/sh
echo "value $SERVICE_TOKEN of a variable, in \"json\": {\"t\":\"$SERVICE_TOKEN\"}"
echo "hugging face hf_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789"
echo "login https://me:hunter2@example.com/x, password: opensesame, Authorization: Bearer abcdefghijklmnop1234567890"
echo "home $HOME/data, mail alice@example.com, address 10.1.2.3, GPU-01234567-89ab-cdef-0123-456789abcdef" >&2
echo "step 10 loss 2.5123 tokens_per_sec: 123456 tokens: 1048576 time 1600180153.477 lr 1e-05 tokenizer: bert-base-uncased"
END
export SERVICE_TOKEN=correct-horse-battery HOME="$PWD/home/alice"
mkdir -p "$HOME"
exit_of 0 "$REPRO" exec -o a.repro.tar.zst -- sh tells.sh --api-key abc123def --data="$HOME/set" --lr 1e-5 "$HOME/x.py"
says_in correct-horse-battery out.txt # live, the command's output is its own
"$REPRO" inspect a.repro.tar.zst log/process0.stdout >stdout.txt
"$REPRO" inspect a.repro.tar.zst log/process0.stderr >stderr.txt
"$REPRO" inspect a.repro.tar.zst facts.json >facts.json
for secret in correct-horse hf_AbCd hunter2 opensesame abcdefghijklmnop1234 abc123def; do
    ! grep -q "$secret" stdout.txt stderr.txt facts.json ||
        { grep "$secret" stdout.txt stderr.txt facts.json >&2; fail "'$secret' is in the bundle"; }
done
for name in alice@ 10.1.2.3 GPU-0123 "$HOME"; do
    ! grep -qF "$name" stdout.txt stderr.txt facts.json ||
        { grep -F "$name" stdout.txt stderr.txt facts.json >&2; fail "'$name' is in the bundle"; }
done
says_in "step 10 loss 2.5123 tokens_per_sec: 123456 tokens: 1048576 time 1600180153.477 lr 1e-05 tokenizer: bert-base-uncased" stdout.txt
says_in 'value (withheld) of a variable, in "json": {"t":"(withheld)"}' stdout.txt
jq -e '.argv == ["sh", "tells.sh", "--api-key", "(withheld)", "--data=(withheld)/set", "--lr", "1e-5",
    "(withheld)/x.py"] and
    (.process[0] | .standard_output.hidden > 4 and
        .standard_error.hidden >= 4)' facts.json >/dev/null ||
    { jq -c '[.argv, .process[0].standard_output]' facts.json >&2; fail "other words"; }
exit_of 0 "$REPRO" verify a.repro.tar.zst

# --identify keeps names, never credentials
exit_of 0 "$REPRO" exec --identify -o b.repro.tar.zst -- sh tells.sh
"$REPRO" inspect b.repro.tar.zst log/process0.stderr >stderr.txt
says_in "home $HOME/data, mail alice@example.com, address 10.1.2.3" stderr.txt
"$REPRO" inspect b.repro.tar.zst log/process0.stdout >stdout.txt
! grep -qE "correct-horse|hf_AbCd|hunter2|opensesame" stdout.txt || fail "a credential in a bundle with --identify"

# the figures are those of the sealed bytes
cat >logs.sh <<'END'
#!/bin/sh
echo "step,timestamp,host"
for i in 0 1 2 3 4; do echo "$i,0.00$i,$HOME/node"; done
END
exit_of 0 "$REPRO" exec --log csv $table -o c.repro.tar.zst -- sh logs.sh
says "64000.000 images/s"
exit_of 0 "$REPRO" verify c.repro.tar.zst
! "$REPRO" inspect c.repro.tar.zst log/process0.stdout | grep -qF "$HOME" || fail "a folder of a person is in the log"

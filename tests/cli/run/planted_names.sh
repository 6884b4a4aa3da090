#!/bin/bash
# Names of hosts, users, folders and files are planted wherever a run can fail or a capture looks. Messages to people have them; no member
# of a complete, interrupted, cut-off or failed bundle has one: neither run.init and data.path nor the files that git knows.
# timeout: 240
. "$TEST_DIR/common.inc"
[ "$(id -u)" = 0 ] || skip "only root can plant names of hosts and mounts"
if [ -z "${PLANTED:-}" ]; then
    unshare --uts --mount true 2>unshare.txt || skip "no namespaces here: $(cat unshare.txt)"
    PLANTED=1 exec unshare --uts --mount bash "$0"
fi
planted=0
plant() { # sets $name to a new one
    planted=$((planted + 1))
    name=plantq$(printf %02d $planted)word
}
hostname plantq00host.plantq00domain.example
plant && user=$name && plant && home=$name && plant && cwd=$name && plant && tmp=$name
plant && store=$name && plant && cache=$name && plant && config=$name && plant && keys=$name
plant && ledgers=$name && plant && data=$name && plant && init=$name && plant && save=$name
plant && saves=$name && plant && out=$name && plant && recipe=$name && plant && host0=$name
plant && host1=$name && plant && mnt1=$name$$ && plant && mnt2=$name$$ && plant && bind=$name
plant && file=$name
export USER=$user LOGNAME=$user HOME=$PWD/$home TMPDIR=$PWD/$tmp REPRO_STORE=$PWD/$store XDG_CACHE_HOME=$PWD/$cache XDG_CONFIG_HOME=$PWD/$config
mkdir -p "$home" "$tmp" "$store" "$cache" "$config" "$keys" "$ledgers" "$cwd" "$data" "$init" "$saves" "$out" "$recipe"
unset REPRO_LEDGER
"$REPRO" key new -o "$keys/$file.pem" >key.txt
export REPRO_KEY=$PWD/$keys/$file.pem
top=$PWD
# mounts of all kinds, in places that no other run of the tests has, and one that holds the working directory
mount -t tmpfs "$mnt1" "$cwd" && mkdir -p "/mnt/$mnt1" "/mnt/$mnt2" "$cwd/$bind" && trap 'umount "/mnt/$mnt1" "/mnt/$mnt2"; rmdir "/mnt/$mnt1" "/mnt/$mnt2"' EXIT
mount -t tmpfs -o size=1m "$mnt2" "/mnt/$mnt1" && mount --bind "$top/$data" "/mnt/$mnt2"
cd "$cwd" || exit 1
git init -q . && git -c user.name=a -c user.email=a@b.c commit -q --allow-empty -m first
plant
mkdir "$name.d" && echo x >"$name.d/$name" && git add . && git -c user.name=a -c user.email=a@b.c commit -q -m second && echo y >"$name.d/$name"
for _ in $(seq 19); do
    plant
    mkdir "$name.d" && echo y >"$name.d/$name"
    plant
    echo x >"$name.txt"
done
tiny="bert_tiny_fp32 --threads 1 --set measure.ceilings=false --set model.hidden_size=32 --set model.intermediate_size=64"
bundle=$top/$out/b.repro.tar.zst
# nothing_named CASE STATUS [NAME]: no planted name is in the bundle, which has that status; NAME is in what people read
nothing_named() {
    [ -e "$bundle" ] || { cat err.txt >&2; fail "$1: no bundle"; }
    "$REPRO" inspect "$bundle" facts.json | jq -e --arg s "$2" '.status == $s' >answer.txt || { cat err.txt >&2; fail "$1: not $2"; }
    members=$(zstd -dcq "$bundle" | tar -tf - | wc -l)
    [ "$members" -ge 10 ] || fail "$1: $members members"
    found=$(zstd -dcq "$bundle" | tar -xOf - | grep -aoi 'plantq[0-9a-z]*' | sort -u | tr '\n' ' ')
    [ -z "$found" ] || { zstd -dcq "$bundle" | tar -xOf - | grep -ai plantq | cut -c 1-300 | head -n 5 >&2; fail "$1: the bundle has $found"; }
    [ $# -lt 3 ] || grep -qF "$3" err.txt || { cat err.txt >&2; fail "$1: people do not read $3, so nothing was tested"; }
    verified=0
    "$REPRO" verify "$bundle" --no-ledger >verify.txt 2>&1 || verified=$?
    case $2-$verified in complete-0 | failed-10 | incomplete-10) ;; *) cat verify.txt >&2 && fail "$1: the bundle does not verify: $verified" ;; esac
    rm -f "$bundle"
}
# begin PHASE OPTION...: a run without an end, as $parent and $worker
begin() {
    phase=$1
    shift
    rm -f err.txt
    # shellcheck disable=SC2086 # several words
    "$REPRO" run $tiny --steps "${steps:-1000000}" -o "$bundle" "$@" >out.txt 2>err.txt &
    parent=$!
    wait_until "$parent" grep -q "$phase" err.txt
    worker=$(children "$parent" | head -n 1)
}
ends() { # CASE STATUS [NAME], as nothing_named
    wait "$parent" || :
    nothing_named "$@"
}
run_once() { # OPTION...
    # shellcheck disable=SC2086
    "$REPRO" run $tiny --steps 1 --set measure.warmup_steps=1 --set measure.repeats=1 -o "$bundle" "$@" >out.txt 2>err.txt
}

# ---- complete, with every name that an option can give ----
"$REPRO" recipes show bert_tiny_fp32 >"$top/$recipe/bert.yaml" 2>answer.txt || "$REPRO" recipes list >answer.txt
run_once --save "$top/$saves/$save.safetensors" || { cat err.txt >&2; fail "no run"; }
nothing_named complete complete
plant
start=$top/$init/$name.safetensors
cp "$top/$saves/$save.safetensors" "$start"
run_once --init "$start" --save "$top/$saves/$save/" || { cat err.txt >&2; fail "no run from a file"; }
nothing_named "complete, from a file" complete
"$REPRO" data unpack bert_sample.tar.zst >unpacked.txt
plant
samples=$top/$data/$name
mkdir "$samples"
find "$(sed -n '$p' unpacked.txt)" -name '*.tfrecord' >samples.txt
while read -r one; do
    plant
    cp "$one" "$samples/$name.tfrecord"
done <samples.txt
run_once --set "data.path=$samples" || { cat err.txt >&2; fail "no run of own samples"; }
nothing_named "complete, own samples" complete

# ---- interrupted and cut off ----
begin timed
kill -INT "$parent"
ends interrupted incomplete
begin warm-up --set model.num_hidden_layers=8 --save "$top/$saves/$save.second"
kill -INT "$parent"
ends "interrupted early" incomplete

# ---- failed ----
for signal in SEGV KILL; do
    begin timed
    kill -$signal "$worker"
    ends "worker and SIG$signal" failed
done
begin timed --set run.hang_seconds=2
kill -STOP "$worker"
ends hung failed
# numbers that are not finite: the message names the file
header=$(od -An -tu8 -N8 "$start" | tr -d ' ')
offset=$(tail -c +9 "$start" | head -c "$header" | jq '.["bert.encoder.layer.1.output.dense.weight"].data_offsets[0]')
printf '\000\000\200\177' | dd of="$start" bs=1 seek=$((8 + header + offset)) conv=notrunc 2>answer.txt
run_once --init "$start" && fail "numbers that are not finite train"
nothing_named "not finite" failed "$init"
# the place of --save is full, or gone
run_once --save "/mnt/$mnt1/$save.safetensors" && fail "a full disk holds a checkpoint" || :
[ -e "$bundle" ] && nothing_named "no room for --save" failed "$mnt1"
mkdir "$top/$saves/$name"
steps=40 begin warm-up --set model.num_hidden_layers=4 --save "$top/$saves/$name/$save.third"
rm -rf "${top:?}/$saves/$name"
ends "the folder of --save is gone" failed "$save"
# samples that change while they are read
begin timed --set "data.path=$samples"
for one in "$samples"/*; do
    : >"$one"
done
sleep 1
kill -KILL "$worker" 2>kill.txt || : # it may have noticed
ends "samples that are gone" failed
# a ledger that cannot be written: the run is complete, and its reason has no path
mkdir "$top/$ledgers/$file"
REPRO_LEDGER=$top/$ledgers/$file run_once || { cat err.txt >&2; fail "no run without a ledger"; }
nothing_named "the ledger is a folder" complete "$ledgers"
REPRO_LEDGER=$top/$ledgers/none/\\$file run_once || :
nothing_named "a ledger of a new folder" complete

# ---- several ranks and processes ----
begin timed --ranks 2 --set train.accumulation_steps=2
kill -KILL "$worker"
ends "a rank" failed
two() { # two processes, as of two hosts
    new_key
    # shellcheck disable=SC2086
    REPRO_HOST=$host1 "$REPRO" run $tiny --steps 1000000 --set train.accumulation_steps=2 --nodes 2 --node-rank 1 --ranks-per-node 1 \
        --join "127.0.0.1:$TEST_PORT" >other.txt 2>&1 &
    other=$!
    REPRO_HOST=$host0 begin timed --nodes 2 --node-rank 0 --ranks-per-node 1 --join "127.0.0.1:$TEST_PORT" --set train.accumulation_steps=2
}
two
kill -KILL "$other"
ends "another process" failed 127.0.0.1
two
kill -INT "$other"
ends "Ctrl-C on another host" incomplete
[ "$planted" -ge 60 ] || fail "$planted names"
echo "$planted names were planted"

#!/bin/sh
# Several ranks on this machine: the same state root, losses and norms as one rank, for every model and layout; checkpoints are equal byte for
# byte and go on; the replay on one rank finds the same bits; what cannot be divided is refused with a remedy.
# timeout: 300
. "$TEST_DIR/common.inc"
few_words
bert="$bert $bert_few" gpt="$gpt $gpt_few"
like_one() { # RECIPE_AND_OPTIONS BUNDLE_OF_ONE LAYOUT...: N for --ranks, DxTxP for --layout
    recipe=$1 one=$2
    shift 2
    # shellcheck disable=SC2086 # several words
    exit_of 0 "$REPRO" run $recipe --steps 2 -o "$one"
    for layout; do
        ranks=$(($(echo "$layout" | tr x '*')))
        case $layout in *x*) how="--layout $layout" ;; *) how="--ranks $layout" ;; esac
        # shellcheck disable=SC2086
        exit_of 0 "$REPRO" run $recipe $how --steps 2 -f -o many.repro.tar.zst
        ranks_in many.repro.tar.zst "$ranks"
        same_bits "$one" many.repro.tar.zst
        case $recipe in resnet*) data= ;; *) data="--data few/${recipe%%_*}" ;; esac
        # shellcheck disable=SC2086
        verified many.repro.tar.zst --replay 1 $data
        says_in 'bit-equal' verify.txt
    done
}
like_one "$bert --set train.accumulation_steps=3" bert.repro.tar.zst 1 2 3
like_one "$resnet --set train.accumulation_steps=3" resnet.repro.tar.zst 1 2 3
like_one "$gpt --set train.accumulation_steps=3" gpt.repro.tar.zst 1 2 3
degrees="--set parallel.data=2 --set parallel.tensor=2 --set parallel.pipeline=2"
like_one "$gpt $degrees --set train.accumulation_steps=2" degrees.repro.tar.zst 2x2x1 1x2x2 2x1x2
# the layout that the recipe's degrees give, without --layout
# shellcheck disable=SC2086
exit_of 0 "$REPRO" run $gpt $degrees --set train.accumulation_steps=2 --ranks 4 --steps 2 -o four.repro.tar.zst
same_bits degrees.repro.tar.zst four.repro.tar.zst
jq -e '.facts.layout | [.data, .tensor, .pipeline] == [1, 2, 2]' bits.json >answer.txt || { jq .facts.layout bits.json >&2; fail "another layout"; }

# With few words, else as it comes, with its warm-up and its ceilings: it verifies itself, and what was measured of exchanges is not what the run exchanged.
# shellcheck disable=SC2086 # several words
exit_of 0 "$REPRO" run bert_tiny_fp32 $bert_few --set train.accumulation_steps=2 --steps 2 --ranks 2 -o as_it_comes.repro.tar.zst
verified as_it_comes.repro.tar.zst
documents as_it_comes.repro.tar.zst >bits.json
jq -e '.facts.rank[1].exchange as $x | ($x.sent_bytes_by_group | add) == $x.sent_bytes and $x.sent_bytes < 9 * $x.bytes_per_step and
    (.run.ceilings.before.exchange | length > 2) and .run.ceilings.exchange.measured_s > 0' bits.json >answer.txt || { jq '.facts.rank, .run.ceilings' bits.json >&2; fail "bytes, or ceilings"; }

# The worlds of one recipe next to each other: speed-up and efficiency against the smallest, and what the check of scaling finds.
exit_of 0 "$REPRO" compare four.repro.tar.zst degrees.repro.tar.zst --layout scaling --json
jq -e '[.blocks[] | select(.columns)][0].rows | length == 2 and .[0][4] == "1x1x1" and .[1][4] == "1x2x2" and .[1][9] == "2"' out.txt >answer.txt ||
    { jq . out.txt >&2; fail "no table of worlds"; }
exit_of 0 "$REPRO" compare four.repro.tar.zst degrees.repro.tar.zst --format csv
grep -q ',slowest_rank,slowest_node$' out.txt || fail "no worlds in CSV"
"$REPRO" verify four.repro.tar.zst --baseline degrees.repro.tar.zst --json >scaling.json 2>err.txt || :
jq -e '.checks[] | select(.check == "scaling") | .state != "skipped"' scaling.json >answer.txt || { cat scaling.json >&2; fail "the check of scaling"; }
exit_of 0 "$REPRO" report four.repro.tar.zst degrees.repro.tar.zst -o both.html
grep -q 'Speed-up and efficiency' both.html || fail "no table of worlds on the page"

# Checkpoints of several ranks are those of one, and either goes on from either.
saves() { # NAME OPTION...
    name=$1
    shift
    # shellcheck disable=SC2086
    exit_of 0 "$REPRO" run $model --steps 1 --save "$name.safetensors" "$@" -o "$name.repro.tar.zst"
    # shellcheck disable=SC2086
    exit_of 0 "$REPRO" run $model --steps 1 --init "$name.safetensors" --save "$name-next.safetensors" "$@" -o "$name-next.repro.tar.zst"
}
for model in "$gpt $degrees --set train.accumulation_steps=2" "$bert"; do
    rm -f ./*.safetensors one.repro* many.repro* one-next* many-next*
    case $model in gpt*) layout="--layout 2x2x2" ;; *) layout="--ranks 2" ;; esac
    saves one
    # shellcheck disable=SC2086
    saves many $layout
    cmp one.safetensors many.safetensors || fail "checkpoints differ: $model"
    cmp one-next.safetensors many-next.safetensors || fail "checkpoints of the next run differ: $model"
    same_bits one-next.repro.tar.zst many-next.repro.tar.zst
    ! cmp -s one.safetensors one-next.safetensors || fail "nothing was trained"
    "$REPRO" inspect many-next.repro.tar.zst run.json >many.json
    case $model in gpt*) first='(. < 4)' ;; *) first=true ;; esac # stage: its gradients are exchanged during the backward pass
    jq -e ".rank | to_entries | map((.value.overlap_s != null) == (.key | $first)) | all" many.json >answer.txt ||
        { jq .rank many.json >&2; fail "who exchanges during the backward pass: $model"; }
done

# Exchanged during the backward pass or after it, optimizer state sharded or replicated: the same bits and the same file. Records, figures and
# the memory plan show which.
model="$bert --set train.accumulation_steps=3 --steps 2"
ran() { # NAME OPTION...
    name=$1
    shift
    # shellcheck disable=SC2086
    exit_of 0 "$REPRO" run $model --ranks 2 --save "$name.safetensors" "$@" -o "$name.repro.tar.zst"
    verified "$name.repro.tar.zst"
    documents "$name.repro.tar.zst" >"$name.json"
    "$REPRO" inspect "$name.repro.tar.zst" steps/rank1.jsonl >"$name.steps"
}
ran beside --set run.overlap_kib=16
ran after --set run.overlap_kib=off
ran whole --set parallel.optimizer_state=replicated
for name in after whole; do
    same_bits beside.repro.tar.zst $name.repro.tar.zst
    cmp beside.safetensors $name.safetensors || fail "checkpoints differ: $name"
done
jq -es 'map(select(.step >= 0) | .overlap_ns >= 0 and .overlap_ns + .exchange_ns <= .end_ns - .start_ns) | length == 2 and all' beside.steps >answer.txt ||
    { cat beside.steps >&2; fail "records without overlap_ns"; }
jq -es 'map(has("overlap_ns")) | any | not' after.steps >answer.txt || fail "overlap_ns without overlap"
jq -e '(.facts | .recipe."run.overlap_kib".value == 16 and (.recipe | has("parallel.optimizer_state") | not) and .plan.connection_bytes > 1000000) and
    (.run.rank | map(.overlap_s != null) | all) and (.facts.rank | map((.exchange | .sent_bytes == ([.sent_bytes_by_group[]] | add) and .levels == 1 and
    .sent_bytes_by_group.data > 2 * .bytes_per_step and .sent_bytes_by_group.tensor == 0)) | all)' beside.json >answer.txt ||
    { jq '.facts, .run.rank' beside.json >&2; fail "figures of the exchange"; }
jq -e '.run.rank | map(.overlap_s != null) | any | not' after.json >answer.txt || fail "overlap_s without overlap"
jq -es 'map(.facts.plan.bytes) | .[0].optimizer_state < 0.6 * .[1].optimizer_state and .[0].gradients == .[1].gradients' after.json whole.json >answer.txt ||
    { jq -s 'map(.facts.plan)' after.json whole.json >&2; fail "plans of sharded and replicated state"; }

# Refused before anything begins.
refused() { # REMEDY OPTION...
    remedy=$1
    shift
    exit_of 2 "$REPRO" run "$@" -o refused.repro.tar.zst
    says "$remedy"
    [ ! -e refused.repro.tar.zst ] || fail "a bundle of a run that was refused"
}
refused train.accumulation_steps bert_tiny_fp32 --set train.accumulation_steps=2 --ranks 3
refused train.accumulation_steps resnet50_tiny_fp32 --set train.accumulation_steps=2 --ranks 100
refused DATAxTENSORxPIPELINE bert_tiny_fp32 --layout 1x2
refused DATAxTENSORxPIPELINE bert_tiny_fp32 --layout 2x0x1
refused DATAxTENSORxPIPELINE bert_tiny_fp32 --layout 2x1x1x1
refused DATAxTENSORxPIPELINE bert_tiny_fp32 --layout 512x512x1
refused '2 ranks' bert_tiny_fp32 --ranks 3 --layout 2x1x1
refused parallel.tensor gpt_tiny_fp32 --layout 1x2x1
refused layers gpt_tiny_fp32 --layout 1x1x3
refused stages resnet50_tiny_fp32 --layout 1x1x2
refused --ranks bert_tiny_fp32 --ranks 0
new_key
refused --ranks bert_tiny_fp32 --nodes 2 --node-rank 0 --join 127.0.0.1 --ranks 3x
OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0 refused "mpirun started" bert_tiny_fp32 --ranks 2
OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0 refused "leave --ranks-per-node out" bert_tiny_fp32 --ranks-per-node 2
refused "give --ranks 2" bert_tiny_fp32 --ranks-per-node 2
refused "nothing tells which of its processes" bert_tiny_fp32 --ranks 2
(unset REPRO_JOB_KEY && refused "on one machine" bert_tiny_fp32 --layout 1024x1x1)
# A job of one node has the ranks of that node.
exit_of 0 "$REPRO" run bert_tiny_fp32 --set train.accumulation_steps=2 --steps 1 --nodes 1 --node-rank 0 --ranks-per-node 2 -o node.repro.tar.zst
ranks_in node.repro.tar.zst 2

#!/bin/bash
# What src/model/model.h and src/data/dataset.h promise of a new model and a new data format: a file each, a word each
# in the lists of recipe/choices.h, and the model's keys. The model is trained, sealed, verified, replayed, saved,
# continued and compared by the code that is there. So is a fact and a figure more; with LONG=1 also that words are no data.
# timeout: 900
. "$TEST_DIR/common.inc"
copy_sources tree
cd tree
mkdir src/model/mlp
cp "$TEST_DIR/new_model/mlp.c" src/model/mlp/
cp "$TEST_DIR/new_model/raw_images.c" src/data/
sed -i '/define RP_MODELS(X)/s/X(bert)/X(bert) X(mlp)/; s/^ *X(bert_tfrecord)/    X(raw_images) X(bert_tfrecord)/' src/recipe/choices.h
cat >>src/recipe/keys.def <<'END'
KEY("model.image_size", model_image_size, I, FOR(mlp), "8", 1, 64, "", "", "pixels of a side")
KEY("model.hidden_width", model_hidden_width, I, FOR(mlp), "33", 1, 4096, "", "", "width of the hidden layer")
KEY("model.classes", model_classes, I, FOR(mlp), "10", 2, 256, "", "", "classes")
END
cd ..
# A fact and a figure, by a row each and the line that sets it.
sed -i 's/^END(facts)/FIELD(facts, thrown_away, COUNT, 0, "", "B", "thrown-away fact", "of a test")\n&/' tree/src/run/facts.def
sed -i 's/^END(figures)/FIELD(figures, thrown_away_s, NUMBER, 0, "", "s", "thrown-away figure", "of a test")\n&/' tree/src/run/figures.def
sed -i 's/^    rp_object_init(out, &rp_type_facts);/&\n    out->thrown_away = (int64_t)(s->started_ns % 1000003);/' tree/src/run/seal.c
sed -i 's/^    derive_model(&f->model, m);/&\n    f->thrown_away_s = r->facts->elapsed_s \/ 2;/' tree/src/run/derive.c
# What includes none of the files that change is taken from this build, and so are the kernels, which know no model; the rest may be slow.
same=()
read -ra kernels < <(make_value 'shipped:%.c=static/%.o')
while read -r object; do
    mkdir -p "tree/build/${object%/*}"
    cp "$BUILD/$object" "tree/build/$object"
    same+=(-o "build/$object")
done < <(cd "$BUILD" && printf '%s\n' "${kernels[@]}"
    find native/src -name '*.d' -exec grep -LE 'recipe/(choices.h|keys.def)|run/(facts|figures).def|report/words.h' {} + |
        while read -r d; do [ ! -e "$TOP/${d:7:-2}.c" ] || echo "${d%.d}.o"; done)
[ ${#same[@]} -gt 200 ] || fail "too few objects of this build are the same: ${#same[@]}"
rebuild() { # WHAT
    make -s -C tree BUILD=build build/native/repro native_flags=-O0 "${same[@]}" >build.log 2>&1 || { tail -n 20 build.log >&2; fail "the tree does not build: $1"; }
}
rebuild "a new model, a fact and a figure more"
repro=$PWD/tree/build/native/repro

"$repro" recipes keys mlp >keys.txt
grep -q '^model.hidden_width' keys.txt && ! grep -q hidden_size keys.txt || fail "keys of the model: $(cat keys.txt)"

awk 'BEGIN { for (i = 0; i < 90; i++) { l = 1 + i % 9; printf "%c", l; for (p = 0; p < 64; p++) printf "%c", 20 + (l * l * 7 + p * l * 11 + i) % 200 } }' >images.raw
[ "$(wc -c <images.raw)" = 5850 ] || fail "awk wrote $(wc -c <images.raw) bytes"
cat >mlp.yaml <<'END'
workload: mlp
model: {image_size: 8, hidden_width: 33, classes: 10}
train: {batch_size: 5, accumulation_steps: 3}
optimizer: {learning_rate: 1e-2, weight_decay: 0}
schedule: {total_steps: 1000}
data: {format: raw_images, path: images.raw}
measure: {warmup_steps: 1, timed_steps: 30}
evidence: {state_root_every: 1}
END
"$repro" run mlp.yaml -o first.zst --threads 1 >run.txt 2>run.err || { cat run.err >&2; fail "run"; }
grep -q 'images/s' run.txt || fail "the unit of the model is not printed: $(cat run.txt)"
mkdir first && tar -C first --zstd -xf first.zst
jq -e '(.model | [.name, .sample_unit, .loss_parts, .counters, .parameters] == ["mlp", "images", [], [], 64 * 33 + 33 + 33 * 10 + 10])
    and .results.throughput.unit == "images/s" and .results.samples_per_step == 15 and .results.counters == []' first/run.json >/dev/null ||
    fail "run.json: $(jq -c '[.model, .results.throughput]' first/run.json)"
jq -e '.tensor_root | map({(.name): .init}) | add | has("input.scale") and has("optimizer.v.output.bias") and
    (has("optimizer.v.input.scale") | not) and length == 13' first/facts.json >/dev/null ||
    fail "tensors of the state: $(jq -c '[.tensor_root[].name]' first/facts.json)"
jq -se 'map(select(.step >= 0)) | all(.[]; (has("loss_parts") or has("counters")) | not)' first/steps/rank0.jsonl >/dev/null || fail "records"
"$repro" inspect first.zst >inspect.txt || fail "inspect"
"$repro" verify first.zst --all --replay 3 --data images.raw >verify.txt 2>verify.err || { cat verify.txt verify.err >&2; fail "verify"; }
grep -q '^passed *replay' verify.txt || fail "replay: $(grep replay verify.txt)"
grep -q '^passed *loss' verify.txt || fail "loss: $(grep loss verify.txt)"
"$repro" report first.zst -o page.html 2>/dev/null && grep -q 'images/s' page.html || fail "page"
"$repro" compare first.zst first.zst >compare.txt 2>&1 || { cat compare.txt >&2; fail "compare"; }
grep -q 'images/s' compare.txt || fail "compare: $(cat compare.txt)"

# The same bits in scalar code on three threads; and in two runs, the second from the state that the first one saved.
roots() { tar -xOf "$1" --zstd steps/rank0.jsonl | jq -r .state_root; }
"$repro" run mlp.yaml -o scalar.zst --isa scalar --threads 3 --set measure.ceilings=false >/dev/null 2>&1
[ "$(roots scalar.zst)" = "$(roots first.zst)" ] || fail "scalar code has other state roots"
"$repro" run mlp.yaml --set measure.ceilings=false -o half.zst --steps 14 --save half.safetensors >/dev/null 2>&1
"$repro" run mlp.yaml --set measure.ceilings=false -o rest.zst --steps 15 --init half.safetensors >/dev/null 2>&1
[ "$(roots rest.zst | tail -n 1)" = "$(roots first.zst | tail -n 1)" ] || fail "a run in two parts ends in another state"
losses=$(jq -r 'select(.step >= 0) | .loss' first/steps/rank0.jsonl | sed -n '1p;$p' | xargs printf '%.3f ')
awk -v l="$losses" 'BEGIN { split(l, x, " "); exit !(x[2] < x[1] - 0.5) }' || fail "it learns nothing: $losses"

# Keys and data of others are refused by name.
status=0
printf 'workload: mlp\ntask:\n  seq_length: 8\n' >wrong.yaml
"$repro" run wrong.yaml >/dev/null 2>wrong.err || status=$?
[ $status = 2 ] && grep -q 'wrong.yaml:3:.*task.seq_length.*mlp' wrong.err || fail "a key of BERT: status $status, $(cat wrong.err)"
status=0
head -c 100 images.raw >short.raw
"$repro" run mlp.yaml -o short.zst --set data.path=short.raw >/dev/null 2>short.err || status=$?
[ $status = 4 ] && grep -q short.raw short.err || fail "a damaged data set: status $status, $(cat short.err)"

short="--threads 1 --steps 2 --set measure.warmup_steps=1 --set measure.repeats=1 --set measure.ceilings=false"
for run in a b; do
    # shellcheck disable=SC2086
    "$repro" run resnet50_tiny_fp32 $short -o $run.zst >run.txt 2>run.err || { cat run.err >&2; fail "run $run"; }
    "$repro" verify --all $run.zst >verify.txt 2>verify.err || { cat verify.txt verify.err >&2; fail "verify $run"; }
done
grep -q 'of facts.json.* thrown_away' verify.txt || fail "the fact is no claim: $(grep claims verify.txt)"
"$repro" inspect a.zst facts.json | jq -e '.thrown_away > 0' >/dev/null || fail "facts.json lacks the fact"
"$repro" inspect a.zst run.json | jq -e '.thrown_away_s > 0' >/dev/null || fail "run.json lacks the figure"
"$repro" schema facts | jq -e '.properties.thrown_away.unit == "B" and (.required | contains(["thrown_away"]))' >/dev/null || fail "schema of facts.json"
"$repro" schema run | jq -e '.properties.thrown_away_s.type == "number"' >/dev/null || fail "schema of run.json"
"$repro" report a.zst --format md >report.md
"$repro" report a.zst -o fact.html 2>/dev/null
for name in fact figure; do
    grep -q "^| thrown-away $name | [0-9]" report.md || fail "the report lacks the $name"
    grep -q "thrown-away $name" fact.html || fail "the page lacks the $name"
done
grep -q 'data-src="facts.json#/thrown_away"' fact.html && grep -q 'data-src="run.json#/thrown_away_s"' fact.html || fail "sources on the page"
"$repro" compare a.zst b.zst >compare.txt 2>&1 || :
grep -q 'thrown-away fact' compare.txt || { cat compare.txt >&2; fail "the comparison lacks the fact"; }
"$repro" compare a.zst b.zst --json 2>/dev/null | jq -e '.pairs[0].figures | any(.name == "thrown-away figure" and .a > 0 and .b > 0)' >/dev/null ||
    fail "the comparison lacks the figure"
[ "${LONG:-0}" != 0 ] || exit 0

# What run/facts.def and figures.def promise: a bundle of the program as it is verifies, replays and is shown in other words. Words are no data: this
# program has another word for every label and every sentence of the renderers.
cp "$TOP"/src/run/{facts.def,figures.def,seal.c,derive.c} tree/src/run/
sed -i -E 's/^(FIELD\([^"]*"([^"\\]|\\.)*", "[^"]*", ")([^"]+)"/\1other \3"/' tree/src/run/facts.def tree/src/run/figures.def
sed -i -E 's/^(#define RP_[A-Z_]+ +")/\1Otherwise: /' tree/src/report/words.h
[ "$(grep -c '"other ' tree/src/run/figures.def)" -gt 15 ] || fail "no labels were changed"
rebuild "other words"
# shellcheck disable=SC2086 # words
"$REPRO" run resnet50_tiny_fp32 $short -o before.zst >run.txt 2>run.err || { cat run.err >&2; fail "run before"; }
"$repro" verify before.zst --replay 1 >verify.txt 2>verify.err || { cat verify.txt verify.err >&2; fail "other words break a sealed bundle"; }
"$repro" report before.zst --format md >report.md || fail "report with other words"
grep -q '^| other step time, median | ' report.md && grep -q 'Otherwise: ' report.md || fail "the report has the words of before"

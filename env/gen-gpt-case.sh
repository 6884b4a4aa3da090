#!/bin/sh
# Write the recipe of one case of the GPT report of 2021 to stdout: recipes/gpt/case.in with the values of results/published/gpt_v100.csv.
# usage: gen-gpt-case.sh CASE[_fp16]      without an ending: strict fp32. Lines that begin with @fp16@ or @fp32@ are of one of them.
# To add a case: a row of that table; the build makes its recipe.
# The vocabulary is padded to a multiple of 128 times the tensor-parallel degree, as Megatron-LM does.
set -eu
case $1 in
*_fp16) precision=fp16 ;;
*) precision=fp32 ;;
esac
awk -F, -v name="${1%_fp16}" -v precision=$precision '
function substitute(line,    key) {
    for (key in text)
        gsub("@" key "@", text[key], line)
    return line
}
FNR == NR && FNR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
FNR == NR && $1 == name {
    for (key in column)
        of[key] = $column[key]
    one = of["framework"] " "
    if (of["latency_ms"] != "")
        one = one of["latency_ms"] " ms a step, "
    one = one of["throughput"] " " of["unit"]
    if (of["memory_mib_per_device"] != "")
        one = one ", " of["memory_mib_per_device"] " MiB"
    published = published (published == "" ? "#   " : "; ") one
    next
}
FNR == NR { next }
FNR == 1 {
    if (published == "") {
        print "gen-gpt-case.sh: results/published/gpt_v100.csv has no case " name >"/dev/stderr"
        exit 1
    }
    h = of["hidden_size"]; l = of["layers"]; unit = 128 * of["tensor_parallel"]
    v = int((50257 + unit - 1) / unit) * unit
    text["precision"] = precision; text["case"] = name; text["published"] = published "."
    text["data"] = of["data_parallel"]; text["tensor"] = of["tensor_parallel"]; text["pipeline"] = of["pipeline_parallel"]
    text["micro"] = of["micro_batch"]; text["accumulation"] = of["accumulation"]; text["global"] = of["global_batch"]
    text["layers"] = l; text["hidden"] = h; text["heads"] = of["attention_heads"]; text["inner"] = 4 * h; text["vocabulary"] = v
    text["devices"] = of["nodes"] * of["gpus_per_node"]; text["nodes"] = of["nodes"]
    text["parameters"] = sprintf("%.0f million", (l * (12 * h * h + 13 * h) + (v + 2048 + 2) * h) / 1e6)
    # a step of the largest batches takes minutes on one device
    text["warmup"] = of["global_batch"] <= 16 ? 20 : of["global_batch"] <= 64 ? 5 : 1
    text["steps"] = of["global_batch"] <= 16 ? 100 : of["global_batch"] <= 64 ? 20 : 5
}
/^# +- devices: / && text["devices"] == 1 { next }
/^@fp[0-9]+@/ {
    if (index($0, "@" precision "@") != 1)
        next
    sub(/^@fp[0-9]+@/, "")
}
{ print substitute($0) }
' results/published/gpt_v100.csv recipes/gpt/case.in

#!/bin/sh
# What only a machine with an NVIDIA GPU can tell: what repro says of its GPUs against what nvidia-smi says, value by value.
# usage: capture.sh REPRO      the part `capture` of check.sh; exit status 7 where there is no GPU to ask.
# One line per check ("ok", "not ok", "skip"), then the count. Everything it looked at is left in ./capture.
set -eu
export LC_ALL=C NO_COLOR=1
repro=$(realpath "$1")
rm -rf capture
mkdir capture
cd capture
passed=0 failed=0 skipped=0
pass() {
    passed=$((passed + 1))
    echo "ok      $*"
}
miss() {
    failed=$((failed + 1))
    echo "not ok  $*"
}
pass_over() {
    skipped=$((skipped + 1))
    echo "skip    $*"
}
same() { # WHAT OURS THEIRS
    if [ "$2" = "$3" ]; then pass "$1: $2"; else miss "$1: repro says '$2', nvidia-smi '$3'"; fi
}
near() { # WHAT OURS THEIRS ALLOWED: numbers that move between two questions
    if awk -v a="$2" -v b="$3" -v d="$4" 'BEGIN { exit !(a + 0 == a && b + 0 == b && a - b <= d && b - a <= d) }'; then
        pass "$1: $2, nvidia-smi $3"
    else miss "$1: repro says '$2', nvidia-smi '$3', allowed difference $4"; fi
}

command -v nvidia-smi >/dev/null || { echo "gpu-check: no nvidia-smi here: no NVIDIA driver, or a container without its utilities" >&2 && exit 7; }
nvidia-smi -L >smi-list.txt 2>&1 || { cat smi-list.txt >&2 && echo "gpu-check: nvidia-smi finds no GPU" >&2 && exit 7; }
command -v jq >/dev/null || { echo "gpu-check: jq is needed: env/setup.sh test" >&2 && exit 7; }

# --- the probe: it answers, in time, and the same from a record ---
begin=$(date +%s%N)
"$repro" capture --json >env.json 2>err.txt || miss "capture ends with $?: $(cat err.txt)"
ms=$((($(date +%s%N) - begin) / 1000000))
jq .probes.gpu env.json >gpu.json
of() { jq -r "$1" gpu.json; }
same "the worker" "$(of .worker.state)" ok
same "probes in error" "$(jq -r '[.probes[] | .. | objects | select(.state? == "error") | .source] | join(", ")' env.json)" ""
if [ "$ms" -le 10000 ]; then pass "capture took $ms ms"; else miss "capture took $ms ms, 10000 are allowed"; fi
"$repro" capture --probe gpu --record record --json >recorded.json && "$repro" capture --probe gpu --root record --json >again.json
steady='.probes.gpu | [paths(type != "object") as $p | select($p[-1] == "state") | $p | join(".")] | sort'
if [ "$(jq -c "$steady" recorded.json)" = "$(jq -c "$steady" again.json)" ]; then pass "a record gives the same values"; else miss "a record differs"; fi
"$repro" doctor --json >doctor.json || [ $? = 7 ] || miss "doctor fails"
jq -r '.findings[] | "note    doctor: \(.severity): \(.what), \(.value)"' doctor.json

# --- value by value ---
same "number of GPUs" "$(of .count.value)" "$(grep -c '^GPU ' smi-list.txt)"
ask() { # QUERY [GPU]
    all="smi-${2:-0}.csv"
    at=$(echo "$queries" | tr , '\n' | grep -nxF "$1" | cut -d: -f1)
    if [ -s "$all" ] && [ -n "$at" ]; then
        awk -F ', ' -v at="$at" 'NR == 1 { print $at }' "$all"
    else
        nvidia-smi ${2:+-i "$2"} --query-gpu="$1" --format=csv,noheader,nounits 2>/dev/null
    fi | sed 's/^ *//; s/ *$//' | head -n 1
}
# All questions to one GPU at once: each start of nvidia-smi takes a second where no daemon keeps the driver up. A field that this version does
# not know spoils the answer; then they are asked one by one.
ask_all() { # GPU
    nvidia-smi -i "$1" --query-gpu="$queries" --format=csv,noheader,nounits >"smi-$1.csv" 2>/dev/null || rm -f "smi-$1.csv"
}
# Whether an answer of nvidia-smi is a value. Driver 580 answers with a sentence where a field is deprecated, as application
# clocks are there.
known() {
    case $1 in
    '' | *N/A* | *[Nn]'ot '[Ss]upported* | *'not a valid field'* | *rror* | *[Dd]eprecated* | *nknown*) return 1 ;;
    esac
}
queries=driver_version
same "driver version" "$(jq -r .probes.nvidia.version.value env.json)" "$(ask driver_version)"
cuda=$(nvidia-smi | sed -n 's/.*CUDA Version: \([0-9.]*\).*/\1/p')
if [ -n "$cuda" ]; then same "CUDA version of the driver" "$(of .nvml_cuda_version.value)" "$cuda"; else pass_over "CUDA version: nvidia-smi has none"; fi
if [ "$(of .cuda_devices.state)" = ok ]; then pass "CUDA counts $(of .cuda_devices.value) devices"; else miss "CUDA: $(of .cuda_devices.detail)"; fi

# field of nvidia-smi, value of ours, what makes ours theirs (jq), allowed difference ("" for texts)
table='name|name|.|
vbios_version|vbios|.|
memory.total|memory_total|. / 1048576|16
memory.free|memory_free|. / 1048576|64
compute_cap|compute_capability|.|
power.limit|power_limit|.|0.01
power.default_limit|power_limit_default|.|0.01
power.max_limit|power_limit_max|.|0.01
power.draw|power_draw|.|60
temperature.gpu|temperature|.|3
clocks.max.sm|clock_sm_max|. / 1000000|0
clocks.max.memory|clock_memory_max|. / 1000000|0
clocks.applications.graphics|clock_sm_application|. / 1000000|0
clocks.applications.memory|clock_memory_application|. / 1000000|0
pcie.link.gen.max|pcie_generation_max|.|0
pcie.link.width.max|pcie_width_max|.|0
pcie.link.width.current|pcie_width|.|0
ecc.mode.current|ecc_mode|ascii_downcase|
ecc.errors.uncorrected.aggregate.total|ecc_uncorrected_total|.|0
persistence_mode|persistence|ascii_downcase|
compute_mode|compute_mode|ascii_downcase|
mig.mode.current|mig_mode|ascii_downcase|
pci.bus_id|pci_address|ascii_downcase|'
queries=$(echo "$table" | cut -d '|' -f1 | paste -sd,),uuid,serial
gpus=$(of '.devices | keys[]')
for gpu in $gpus; do
    index=${gpu#gpu}
    echo "$table" >table.txt
    ask_all "$index"
    while IFS='|' read -r query field convert allowed; do
        theirs=$(ask "$query" "$index")
        state=$(of ".devices.$gpu.$field.state")
        if ! known "$theirs"; then
            case $state in
            ok) pass_over "$gpu $field: nvidia-smi says '$theirs', repro $(of ".devices.$gpu.$field.value")" ;;
            error) miss "$gpu $field: nvidia-smi says '$theirs', repro has $(of ".devices.$gpu.$field.detail")" ;;
            *) pass "$gpu $field: neither has it ($state)" ;;
            esac
            continue
        fi
        ours=$(of ".devices.$gpu.$field.value | if . == null then \"($state)\" else $convert end")
        if [ -n "$allowed" ]; then
            near "$gpu $field" "$ours" "$theirs" "$allowed"
        else
            [ "$field" != pci_address ] || theirs=${theirs#0000} # eight digits of domain there, four here
            same "$gpu $field" "$(echo "$ours" | tr 'A-Z_' 'a-z ')" "$(echo "$theirs" | tr 'A-Z_' 'a-z ')"
        fi
    done <table.txt
    uuid=$(ask uuid "$index") serial=$(ask serial "$index")
    for secret in "$uuid" "$serial"; do
        known "$secret" || continue
        if grep -qF "$secret" env.json; then miss "$gpu: a UUID or serial number is in clear"; else pass "$gpu: ${#secret} letters of identity are hidden"; fi
    done
done

# --- the matrix, as nvidia-smi prints it ---
rows() { sed 's/\x1b\[[0-9;]*m//g' | grep -E '^(GPU[0-9]+|NIC[0-9]+|mlx[0-9a-z_]+)[[:space:]]' | sed 's/[[:space:]][[:space:]]*/ /g; s/ $//'; }
nvidia-smi topo -m >smi-topo.txt 2>&1 || :
"$repro" capture >page.txt 2>>err.txt || miss "the page: $(tail -n 1 err.txt)"
rows <smi-topo.txt >topo-theirs.txt || :
rows <page.txt >topo-ours.txt || :
if [ -s topo-theirs.txt ]; then
    if cmp -s topo-ours.txt topo-theirs.txt; then
        pass "nvidia-smi topo -m: the same matrix"
    else
        miss "nvidia-smi topo -m differs: diff capture/topo-theirs.txt capture/topo-ours.txt"
        diff topo-theirs.txt topo-ours.txt || :
    fi
else pass_over "nvidia-smi prints no matrix"; fi

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]

#!/bin/bash
# Executing machine code finds faults: each is one change of one instruction in the text of sm_90 or sm_90a, and the
# operation that uses it fails with a message that names the operation and the element, or the kernel and the instruction.
# The fault "none" is none and has to pass. What is not known ends the process. LONG=1: more of them in products that go on
# while the threads do (HGMMA); else that these can still be planted.
# timeout: 600
. "$TEST_DIR/common.inc"
need_text 90
[ -x "$BUILD/native/tests/cuda/test_cuda_ops" ] || skip "tests/cuda is not built"

plant() { # UNIT KERNEL N PATTERN OLD NEW DIRECTORY: in the N-th instruction of the kernel that matches; prints it
    cp "$BUILD/sass/sm_90${7#sass}/$1.sass" original
    KERNEL=$2 NTH=$3 PATTERN=$4 OLD=$5 NEW=$6 awk '
        /^\t\.section\t/ {is_in = index($0, ".text.rp_" ENVIRON["KERNEL"] ",")}
        is_in && /^ *\/\*[0-9a-f]+\*\// && $0 ~ ENVIRON["PATTERN"] && ++n == ENVIRON["NTH"] && (i = index($0, ENVIRON["OLD"])) {
            before = $0
            $0 = substr($0, 1, i - 1) ENVIRON["NEW"] substr($0, i + length(ENVIRON["OLD"]))
            split(before, a, "*"); gsub(/ +/, " ", before); sub(/^.*\*\/ /, "", before)
            print "rp_" ENVIRON["KERNEL"] " at " a[2] ": " before " " ENVIRON["OLD"] " -> " ENVIRON["NEW"] >"planted"
        }
        {print}' original >"$7/$1.sass"
    [ -s planted ] || fail "there is no $3. '$4' with '$5' in rp_$2: plant the fault elsewhere"
}
fault() { # NAME WHAT-IS-REPORTED UNIT KERNEL N PATTERN OLD NEW OPERATIONS VARIABLE=VALUE...
    local name=$1 report=$2 unit=$3 kernel=$4 n=$5 pattern=$6 old=$7 new=$8 operations=$9 status=0 in=sass
    shift 9
    rm -rf sass sassa planted && mkdir sass sassa
    ln -s "$BUILD"/sass/sm_90/* sass/
    [ ! -d "$BUILD/sass/sm_90a" ] || ln -s "$BUILD"/sass/sm_90a/* sassa/
    if [ "$name" != none ]; then
        [ ! -e "sassa/$unit.sass" ] || in=sassa
        rm "$in/$unit.sass"
        plant "$unit" "$kernel" "$n" "$pattern" "$old" "$new" "$in"
    fi
    [ -n "$is_run" ] || return 0
    # shellcheck disable=SC2086 # words
    (cd "$TOP" && env TAP_FIRST=1 LONG=1 SASS_STRICT=0 SASS_DIR="$OLDPWD/sass" SHIM_CAPABILITY=90 OPS="$operations" "$@" timeout 300 \
        "$BUILD/native/tests/cuda/"${TEST:-test_cuda_ops}) >run.txt 2>&1 || status=$?
    if [ "$name" = none ]; then
        [ $status = 0 ] || { tail -n 20 run.txt >&2 && fail "without a fault something is found"; }
        return
    fi
    [ $status != 0 ] && [ $status != 124 ] || fail "$name is not found (status $status): $(cat planted)"
    grep -q -e "$report" run.txt || { cat run.txt >&2 && fail "$name: found, but not as '$report': $(cat planted)"; }
    echo "$name: $(cat planted)"
    echo "    $(grep -m 1 -e "$report" run.txt | sed 's/.*: CHECK(0): //' | cut -c 1-300)"
}
element='element [0-9]* is'
is_run=1
fault none - - - - - - - "add fill gelu_forward layernorm_forward"
fault operation "add: .*$element" whole add 1 ' FADD ' FADD FMUL add
fault carry "fill: .*a byte outside the tensor" whole fill 1 'IMAD.X .*~' ', P' ', !P' fill
fault guard "gelu_forward: .*$element" pointwise gelu_forward 1 '@P[0-9] FADD' @P @!P gelu_forward
fault address "add: .*$element" whole add 1 'LDG.E.128 ' '64]' '64+0x10]' add
fault alignment 'reads 16 bytes at .*, which is not aligned: .*LDG.E.128' whole add 1 'LDG.E.128 ' '64]' '64+0x4]' add
fault select "adam_update: .*$element" optim adam_update 1 ' FSEL ' ', !P' ', P' adam_update
fault immediate "gelu_forward: .*$element" pointwise gelu_forward 1 'FFMA .*, 0[.]1666' 0.1666 0.1667 gelu_forward
fault lane "layernorm_forward: .*$element" rows layernorm_forward 1 'SHFL.BFLY.*0x10' 0x10 0x8 layernorm_forward
fault root "layernorm_forward: .*$element" rows layernorm_forward 1 MUFU.RSQ RSQ RCP layernorm_forward
fault table "digest_leaves: tensor" evidence digest_leaves 2 LOP3.LUT 0x96 0xe8 digest_leaves
fault product "gather_rows: .*\($element\|a byte outside\)" rows gather_rows 1 ' IMAD R' 'IMAD R' 'IMAD.HI R' gather_rows
fault register "gemm: .*$element" gemm gemm_64x128_nn 40 ' FFMA ' ', R' ', R1' gemm
fault wait "gemm: .*$element" gemm gemm_64x128_nt 2 'DEPBAR.LE' ', 0x' ', 0x1' gemm RP_CUDA_GEMM=rotate
fault barrier 'nothing orders them .*LDS' gemm gemm_64x128_nn 2 'BAR.SYNC' 'BAR.SYNC.DEFER_BLOCKING 0x0' NOP gemm SASS_RACES=1
fault half "gemm: .*$element" gemm gemm_64x128_nn 1 LDGSTS '], desc' '+0x400], desc' gemm
fault release 'nothing orders them' gemm gemm_128x128_nn 2 MEMBAR MEMBAR.ALL.GPU NOP gemm RP_CUDA_GEMM=rotate SASS_RACES=1
fault acquire 'nothing orders them' gemm gemm_128x128_nn 1 CCTL CCTL.IVALL NOP gemm RP_CUDA_GEMM=rotate SASS_RACES=1
fault flush "dropout_forward: .*$element" rows dropout_forward 1 ' FMUL ' FMUL FMUL.FTZ dropout_forward
fault clamp "gelu_backward: .*$element" pointwise gelu_backward 1 FMNMX PT !PT gelu_backward
fault rotation "digest_leaves: tensor" evidence digest_leaves 1 'SHF.L.W.U32.HI' 0x1 0x0 digest_leaves
fault halves "adam_update: .*$element" optim adam_update 1 'STG.E.128' '64]' '64+0x10]' adam_update
fault store "colsum: .*$element" rows column_tree 1 ' STS ' '], R' '+0x4], R' colsum
fault branch "layernorm_forward: .*$element" rows layernorm_forward 2 '@P[0-9] BRA' @P @!P layernorm_forward
fault scale "gather_rows: .*$element" rows gather_rows 1 'LEA R[0-9]*, P[0-9], R10' 0x2 0x1 gather_rows
fault reunion 'takes the value of lane [0-9]*, which is not here' rows layernorm_forward 1 ' BSYNC B' BSYNC BREAK layernorm_forward
fault modifier "unknown modifier 'SAT' of 'FADD.SAT'" whole add 1 ' FADD ' FADD FADD.SAT add
fault instruction "unknown instruction 'DADD'" whole add 1 ' FADD ' FADD DADD add
fault constant 'what is at c\[0x0\]\[0x300\] is not known' whole fill 1 'LDC R1, c' 0x28 0x300 fill
wgmma() { # NAME WHAT-IS-REPORTED N PATTERN OLD NEW VARIABLE=VALUE...: in the products of sm_90a, of fp16: these are compared first
    local name=$1 report=$2 n=$3 pattern=$4 old=$5 new=$6
    shift 6
    [ -e "$BUILD/sass/sm_90a/gemm16_wgmma.sass" ] || return 0 # ARCHS was given
    TEST="test_cuda_gemm16 wgmma" fault "$name" "$report" gemm16_wgmma gemm16_f16_wgmma256_nn "$n" "$pattern" "$old" \
        "$new" - LONG=0 "$@"
}
wgmma arrive 'written after the last WARPGROUP.ARRIVE' 1 WARPGROUP.ARRIVE WARPGROUP.ARRIVE NOP
[ "${LONG:-0}" != 0 ] || is_run=
wgmma last-wait differ 2 WARPGROUP.DEPBAR ', 0x0' ', 0x1'
wgmma objects 'initialised without a fence of proxies' 2 FENCE.VIEW FENCE.VIEW.ASYNC.S NOP
wgmma proxy 'wrote without a fence of proxies' 3 FENCE.VIEW FENCE.VIEW.ASYNC.S NOP
wgmma expect 'nothing orders them' 2 SYNCS.ARRIVE ', R9' ', RZ' SASS_RACES=1
wgmma wait '\(nothing orders them\|without a fence of proxies\)' 1 WARPGROUP.DEPBAR ', 0x1' ', 0x2' SASS_RACES=1
wgmma begin '\(nothing orders that before\|is not initialised\)' 1 BAR.SYNC 'BAR.SYNC.DEFER_BLOCKING 0x0' NOP
wgmma parity '\(nothing orders them\|are complete, and this thread\)' 1 SYNCS.PHASECHK ', R13' ', RZ' SASS_RACES=1
wgmma release '\(nothing orders them\|nothing waits for\)' 1 'DEPBAR.LE gsb0, 0x1' 'WARPGROUP.DEPBAR.LE gsb0, 0x1' NOP SASS_RACES=1
wgmma arrivals 'has a barrier at 0 of shared memory' 1 'SYNCS.ARRIVE' '@!P0' '@P0' SASS_RACES=1
wgmma object 'is not initialised' 1 SYNCS.EXCH '0x30000' '0x30100'
wgmma group '\(differ\|nothing waits for\)' 1 'HGMMA.*gsb0' ', gsb0' ''
wgmma transposed '\(differ\|of shared memory of\)' 1 HGMMA .tnspB ''
wgmma format differ 2 HGMMA .F32 .F32.BF16
wgmma slice '\(differ\|of shared memory of\)' 2 HGMMA 'gdesc[UR4]' 'gdesc[UR8]'
wgmma early 'no descriptor of a matrix' 2 'R2UR UR8' R12 R24
wgmma sums 'of another kind' 1 HGMMA 'R24, gdesc' 'R32, gdesc'
wgmma size 'unknown modifier' 1 HGMMA 64x256x16 64x128x16

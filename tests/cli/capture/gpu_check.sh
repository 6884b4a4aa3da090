#!/bin/sh
# tests/gpu/capture.sh, which judges a real machine: here the driver is played and so is nvidia-smi. It agrees with what agrees, and finds
# each lie.
. "$TOP/tests/common.inc"
need jq
"$REPRO" version --json | jq -e .gpu_worker >/dev/null || skip "this build has no GPU worker"
[ -e "$BUILD/fake/440/libnvidia-ml.so.1" ] || skip "the library of tests/fake is not built"
mkdir bin
cat >bin/nvidia-smi <<'SMI'
#!/bin/sh
# The V100 machine of tests/fake, as nvidia-smi 440 words it. LIE is a sed script on the answers.
index=0
[ "$1" != -i ] || index=$2
answer() {
    case $1 in
    name) echo Tesla V100-SXM2-16GB ;;
    driver_version) echo 440.33.01 ;;
    vbios_version) echo 88.00.4F.00.09 ;;
    memory.total) echo 16160 ;;
    memory.free) echo 16150 ;;
    compute_cap) echo 'Field "compute_cap" is not a valid field to query.' ;;
    power.*limit) echo 300.00 ;;
    power.draw) echo 42.35 ;;
    temperature.gpu) echo 36 ;;
    clocks.max.sm) echo 1530 ;;
    clocks.max.memory | clocks.applications.memory) echo 877 ;;
    clocks.applications.graphics) echo 1312 ;;
    pcie.link.gen.max) echo 3 ;;
    pcie.link.width.*) echo 16 ;;
    ecc.mode.current | persistence_mode) echo Enabled ;;
    ecc.errors.*) echo 0 ;;
    compute_mode) echo Default ;;
    pci.bus_id)
        set -- 1A 1B 3D 3E 88 89 B2 B3
        shift "$index"
        echo "00000000:$1:00.0"
        ;;
    mig.mode.current) # driver 580 answers so where a field is deprecated
        set -- '[N/A]' Deprecated '[Requested functionality has been deprecated]' 'Requested functionality has been deprecated' '[Unknown Error]' \
            '[Not Supported]' '[N/A]' '[N/A]'
        shift "$index"
        echo "$1"
        ;;
    uuid) echo GPU-00000000-0000-0000-0000-000000000000 ;;
    *) echo '[Not Supported]' ;;
    esac | sed "$LIE"
}
case "$*" in
-L) for i in 0 1 2 3 4 5 6 7; do echo "GPU $i: Tesla V100-SXM2-16GB (UUID: GPU-$i)"; done ;;
"topo -m") sed "$LIE" "$MATRIX" ;;
*--query-gpu=*)
    for word; do
        case $word in
        --query-gpu=*,*) # one field of the list is not known here, and then none is answered
            answer compute_cap
            exit 2
            ;;
        --query-gpu=*) answer "${word#--query-gpu=}" ;;
        esac
    done
    ;;
*) echo "| NVIDIA-SMI 440.33.01    Driver Version: 440.33.01    CUDA Version: 10.2     |" ;;
esac
SMI
chmod +x bin/nvidia-smi
# The matrix as it was published, without the network card, which is not played here.
sed '/^mlx5_0/d; s/mlx5_0//; s/\(NODE\|PIX\|SYS\|PXB\|PHB\)\([[:space:]]*[0-9]*-[0-9,-]*\)$/\2/' \
    "$TOP/tests/hosts/v100_sxm2_x8/published.txt" >matrix.txt
check() { # LIE
    status=0
    MATRIX=$PWD/matrix.txt LIE=$1 PATH=$PWD/bin:$PATH LD_LIBRARY_PATH=$BUILD/fake/440 RP_FAKE_NVML=$TOP/tests/fake/v100_sxm2_8.txt \
        "$TOP/tests/gpu/capture.sh" "$REPRO" >out.txt 2>err.txt || status=$?
    [ "$status" = 1 ] || { cat out.txt err.txt >&2; fail "exit status $status, expected 1"; }
}
found() { # NUMBER: of failures
    grep -q " $1 failed" out.txt || { cat out.txt err.txt >&2; fail "expected $1 failures"; }
}
check "s/^300.00/250.00/; s/88.00.4F.00.09/88.00.4F.00.08/; s/NV2/NV1/"
found 34 # three limits and a version on each of eight, the matrix, and CUDA, of which there is no driver; nothing that agrees
says_in "not ok  CUDA:" out.txt
[ "$(grep -c '^ok .* mig_mode: neither' out.txt)" = 8 ] || { cat out.txt >&2; fail "a sentence of nvidia-smi counts as a value"; }
says_in "nvidia-smi topo -m differs" out.txt
exit_of 7 env PATH="$PATH" "$TOP/tests/gpu/capture.sh" "$REPRO"

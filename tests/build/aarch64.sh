#!/bin/bash
# The program for 64-bit Arm, where it was built: a static PIE, and in an emulator the bits of x86-64. The self test, a run whose losses and
# state roots are those of this machine, bundles that each program verifies and replays of the other, a captured Arm processor, and what make
# refuses there. `make ARCH=aarch64 check` builds and runs it.
# timeout: 1800
. "$TEST_DIR/common.inc"
arm=$BUILD/aarch64/repro
[ -x "$arm" ] || skip "no program for aarch64 was built: make ARCH=aarch64 check"
[ "$(uname -m)" = x86_64 ] || skip "compares with x86-64"
need qemu-aarch64-static aarch64-linux-gnu-readelf jq

# Emulated, the program reads this machine's /proc/cpuinfo, unless the file is below -L.
mkdir -p n1/proc
cat >n1/proc/cpuinfo <<'END'
processor	: 0
BogoMIPS	: 243.75
Features	: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp
CPU implementer	: 0x41
CPU architecture: 8
CPU variant	: 0x3
CPU part	: 0xd0c
CPU revision	: 1

END
export QEMU_CPU=neoverse-n1 QEMU_LD_PREFIX=$PWD/n1
emulated() { qemu-aarch64-static "$arm" "$@"; }
commit() { jq -r .commit; }
[ "$(emulated version --json | commit)" = "$("$REPRO" version --json | commit)" ] ||
    skip "the program for aarch64 is of another commit: make ARCH=aarch64 check"

# --- the file -------------------------------------------------------------------------------------------------------
aarch64-linux-gnu-readelf -hlWd "$arm" >elf.txt
grep -q 'Machine: *AArch64' elf.txt && grep -qE 'FLAGS_1.*PIE' elf.txt && grep -q GNU_RELRO elf.txt || fail "not a PIE for aarch64: $(cat elf.txt)"
! grep -qE 'INTERP|NEEDED|TEXTREL|RWE' elf.txt || fail "not static, or writable code: $(cat elf.txt)"
[ "$(stat -c %s "$arm")" -le $((11 << 20)) ] || fail "more than 11 MiB"

# --- arithmetic -----------------------------------------------------------------------------------------------------
emulated selftest --json >self.json || fail "self test: $(cat self.json)"
grep -q neon self.json && grep -q scalar self.json || fail "not all instruction sets were tested"

# --- capture --------------------------------------------------------------------------------------------------------
emulated capture --json >capture.json 2>err.txt || fail "capture: $(cat err.txt)"
[ "$(jq -r '.probes | .cpu.model_name.value + " " + .cpu.part.value + " " + .kernel.machine.value' capture.json)" = "Neoverse-N1 0xd0c aarch64" ] ||
    fail "the captured processor: $(jq -c '.probes.cpu.model_name, .probes.kernel.machine' capture.json)"

# --- a run on each, and each bundle on the other --------------------------------------------------------------------
few_words
few() { # COMMAND... with fewer words and a batch of two
    # shellcheck disable=SC2086
    "$@" bert_tiny_fp32 --threads 1 --steps 1 $bert_few --set measure.warmup_steps=1 --set measure.repeats=1 --set train.accumulation_steps=1 \
        --set train.batch_size=2 --set measure.ceilings=false >run.txt 2>err.txt ||
        fail "$*: $(cat run.txt err.txt)"
}
few "$REPRO" run -o x86.repro.tar.zst
few emulated run -o neon.repro.tar.zst
few emulated run --set run.isa=scalar -o scalar.repro.tar.zst
bits() { # BUNDLE: losses, norms and state roots of all steps, and the digests of the trained state
    "$REPRO" inspect "$1" steps/rank0.jsonl | jq -c '[.step, .loss, .grad_norm, .state_root]'
    "$REPRO" inspect "$1" facts.json | jq -c .tensor_root
}
bits x86.repro.tar.zst >x86.bits
grep -q '0x1' x86.bits || fail "no losses: $(cat x86.bits)"
for name in neon scalar; do
    bits $name.repro.tar.zst >$name.bits
    cmp -s x86.bits $name.bits || fail "other bits on aarch64 in $name code: $(diff x86.bits $name.bits)"
    [ "$("$REPRO" inspect $name.repro.tar.zst facts.json | jq -r '.rank[0].device | .name + " " + .isa')" = "Neoverse-N1 $name" ] || fail "the device"
    verified $name.repro.tar.zst --replay 2 --data few/bert
    says_in "bit-equal" verify.txt
done
emulated verify x86.repro.tar.zst --replay 2 --data few/bert >verify.txt 2>&1 || fail "on aarch64: $(cat verify.txt)"
says_in "bit-equal" verify.txt

# --- what is not there ----------------------------------------------------------------------------------------------
for words in "all CUDA=1" "tests-built" "all SAN=asan" "all ARCH=riscv64"; do
    # shellcheck disable=SC2086
    exit_of 2 make -C "$TOP" -n ARCH=aarch64 BUILD="$BUILD" $words
    grep -qE 'ARCH(=|: .)(aarch64|riscv64)' err.txt || fail "make $words says: $(cat err.txt)"
done

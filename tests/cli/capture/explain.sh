#!/bin/sh
# What a field means: by its path, its name, a pattern, the beginning of its path; wrong words get a suggestion.
. "$TOP/tests/common.inc"
explained() { # FIELD TEXT
    "$REPRO" capture --explain "$1" >out.txt 2>err.txt || fail "$1: $(cat err.txt)"
    says_in "$2" out.txt
}
explained gpu.devices.gpu0.clock_sm_application '  impact   high'
explained cuda.libraries.libnccl.so.2.version '  meaning  version of the library'
explained cuda.toolkits.cuda-13.0 '  meaning  a CUDA toolkit and its version'
explained network.interfaces.eth0.pci_address '  meaning  PCI address of the device'
explained clock_sm_application '  why      compute is proportional to it' # the only field of that name
explained kernel.load_1min 'differs between any two moments'
explained cpu 'cpu.caches.*.size  '
explained 'memory.huge*' 'memory.huge_page_pools.*.pages  '
explained numa_node '  meaning  NUMA node of the device'
exit_of 2 "$REPRO" capture --explain gpu.devices.gpu0.clock_sm_aplication
words
exit_of 2 "$REPRO" capture --explain gpu.devices.gpu0.nonsense
exit_of 2 "$REPRO" capture --explain xyzzy.zzzzzzzzzzzzzz
words
exit_of 2 "$REPRO" capture --explain "$(printf 'a\033[31mb')"
! grep -q "$(printf '\033')" err.txt || fail "a control character reaches the terminal"
exit_of 2 "$REPRO" capture --explain ''

"$REPRO" capture --explain gpu.devices.gpu0.power_limit --json >out.json
[ "$(jq -r '.fields[0] | .field, .impact, .moment' out.json | tr '\n' ' ')" = 'gpu.devices.*.power_limit high false ' ] || fail "the JSON says $(cat out.json)"
[ "$("$REPRO" capture --explain gpu --json | jq '.fields | length')" -gt 80 ] || fail "too few fields of the GPU"

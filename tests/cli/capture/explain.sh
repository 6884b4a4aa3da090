#!/bin/sh
# What a field means: by its path, its name, a pattern, the beginning of its path; wrong words get a suggestion.
. "$TOP/tests/common.inc"
explained() { # FIELD [PATTERN]
    "$REPRO" capture --explain "$1" >out.txt 2>err.txt || fail "$1: $(cat err.txt)"
    words out.txt "${2:-.}"
}
explained gpu.devices.gpu0.clock_sm_application
explained cuda.libraries.libnccl.so.2.version
explained cuda.toolkits.cuda-13.0
explained network.interfaces.eth0.pci_address
explained clock_sm_application # the only field of that name
explained kernel.load_1min
explained cpu 'cpu.caches.*size'
explained 'memory.huge*'
explained numa_node
exit_of 2 "$REPRO" capture --explain gpu.devices.gpu0.clock_sm_aplication
words
exit_of 2 "$REPRO" capture --explain gpu.devices.gpu0.nonsense
exit_of 2 "$REPRO" capture --explain xyzzy.zzzzzzzzzzzzzz
words
exit_of 2 "$REPRO" capture --explain clok
words
exit_of 2 "$REPRO" capture --explain "$(printf 'a\033[31mb')"
! grep -q "$(printf '\033')" err.txt || fail "a control character reaches the terminal"
exit_of 2 "$REPRO" capture --explain ''

"$REPRO" capture --explain gpu.devices.gpu0.power_limit --json >out.json
[ "$(jq -r '.fields[0] | .field, .impact, .varies' out.json | tr '\n' ' ')" = 'gpu.devices.*.power_limit high false ' ] || fail "the JSON says $(cat out.json)"
[ "$("$REPRO" capture --explain gpu --json | jq '.fields | length')" -gt 80 ] || fail "too few fields of the GPU"

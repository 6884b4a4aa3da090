#!/bin/sh
# A log of 75 MB goes through in constant memory.
. "$TOP/tests/common.inc"
need prlimit
awk 'BEGIN {print "batch_size_per_device = 24\ngpu_num_per_node = 1\nnum_nodes = 1"
    for (i = 0; i < 750000; i++) print "a message of a framework that nobody asked for, as long as they usually are, line after line"
    print "step: 19, a, throughput: 1.0 1600000000.0\nstep: 119, a, throughput: 1.0 1600000010.0"}' >big.log
prlimit --as=60000000 "$REPRO" import dlperf big.log --json >out.txt || fail "the log does not fit into 60 MB of address space"
says_in '"value": 240.0' out.txt

#!/bin/sh
# Capture writes nothing but what was asked for, asks nothing of the network, and leaves no process behind.
. "$TOP/tests/common.inc"
need strace
strace -o probe.txt true 2>err.txt || skip "strace cannot trace here: $(tail -n 1 err.txt)"
calls=open,openat,openat2,creat,mkdir,mkdirat,rename,renameat,renameat2,unlink,unlinkat,symlink,symlinkat,link,linkat,truncate,mknod,mknodat
calls=$calls,chmod,fchmodat,utimensat,connect,sendto,sendmsg,sendmmsg,bind,listen

traced() { # OUTPUT ARGUMENT...
    trace=$1
    shift
    strace -f -qq -e trace="$calls" -e signal=none -o "$trace" "$REPRO" "$@" >out.txt 2>err.txt ||
        { cat err.txt >&2 && fail "capture fails under strace"; }
}
network() { # TRACE: a socket alone asks the kernel about its interfaces; Unix sockets and the GPU worker's stay on the machine
    grep -E '(connect|sendto|sendmsg|sendmmsg|bind|listen)\(' "$1" | grep -vE 'AF_UNIX|"RPW1' || :
}
# What changes something below a name: opened for writing, or a call that makes, removes or renames. /dev/null is nowhere.
writes() { # TRACE
    by_flag='O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_TMPFILE'
    by_call='(creat|mkdir(at)?|rename(at2?)?|unlink(at)?|symlink(at)?|link(at)?|truncate|mknod(at)?|chmod|fchmodat|utimensat)\('
    grep -vE ' = -1 |"/dev/null"' "$1" | grep -E "$by_flag|$by_call" || :
}
traced plain.txt capture --json
[ -z "$(network plain.txt)" ] || fail "the network was asked: $(network plain.txt | head -n 3)"
[ -z "$(writes plain.txt)" ] || fail "something was written: $(writes plain.txt | head -n 3)"

# With -o one file under its temporary name; with --record only relative to the directory's own descriptor.
traced asked.txt capture -o env.json --record machine
[ -z "$(network asked.txt)" ] || fail "the network was asked"
other=$(writes asked.txt | grep -vE '"(\./)?\.?env\.json[^"/]*"|mkdir\("machine"' |
    grep -vE '(openat|mkdirat)\([0-9]+, "[^/]|renameat2?\([0-9]+, "\.repro/|symlinkat\("[^"]*", [0-9]+, "[^/]' || :)
[ -z "$other" ] || fail "written elsewhere: $other"
[ -s env.json ] && [ -s machine/.repro/live.json ] || fail "what was asked for is not there"

#!/bin/bash
# Banned functions, and exits or prints outside main.c and cli/. libjpeg has no other way to leave than longjmp(). Comments and strings are blanked before the search.
set -eu
cd "$TOP"
banned="strcpy|strcat|stpcpy|sprintf|vsprintf|gets|strtok|rand|srand|random|drand48|atoi|atol|atof|alloca|tmpnam|mktemp|tempnam|system|popen"
banned+="|setjmp|longjmp|asctime|ctime|localtime|gmtime|strerror_l|scanf|bcopy|signal"
awk -v banned="$banned" '
    function report(text) { print FILENAME ":" FNR ": " text ": " $0; bad = 1 }
    /^ *\/?\*[ *]/ { next }
    {
        gsub(/\\"/, "")
        gsub(/"[^"]*"/, "\"\"")
        sub(/\/\/.*/, "")
        gsub(/\/\*.*\*\//, "")
        lines++
    }
    FILENAME == "src/data/image/jpeg.c" { gsub(/(set|long)jmp\(/, "") }
    $0 ~ "(^|[^A-Za-z0-9_])(" banned ") *\\(" && !/signal\([^,]*, SIG_(IGN|DFL)\)/ { report("banned") }
    /(^|[^A-Za-z0-9_])json_dumps *\(/ { report("free() cannot take what json_dumps() returns (base/json_memory.h); use json_dumpb()") }
    FILENAME !~ /^src\/(main\.c$|cli\/)/ && /(^|[^A-Za-z0-9_])(printf|puts|putchar|exit|fprintf *\( *stdout) *\(/ {
        report("only main.c and cli/ print or exit")
    }
    END { exit bad || lines < 10000 }' src/*.c src/*/*.[ch] src/*/*/*.[ch]

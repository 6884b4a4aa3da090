# Of a function as objdump -d prints it: fused multiply-adds of four floats, instructions and loads of the innermost loop with the most of the
# first. A loop is what lies between a branch and its target above, with no such branch in between.
function padded(hex) { return substr("0000000000000000" hex, length(hex) + 1) }
/^ *[0-9a-f]+:/ {
    sub(/:$/, "", $1)
    at[++n] = padded($1)
    place[at[n]] = n
    line[n] = $0
    operation[n] = $2
    if ($2 ~ /^(b\.|cbn?z|tbn?z)/) {
        sub(/ <.*/, "")
        sub(/^0x/, "", $NF)
        target[n] = padded($NF)
    }
}
END {
    for (i = 1; i <= n; i++) {
        if (!(i in target) || target[i] > at[i] || !(target[i] in place))
            continue
        inner = 1
        fma = loads = 0
        for (j = place[target[i]]; j <= i; j++) {
            inner = inner && !(j < i && (j in target) && target[j] <= at[j] && target[j] >= target[i])
            fma += line[j] ~ /fmla.*\.4s/
            loads += operation[j] ~ /^ld/
        }
        if (inner && fma > most) {
            most = fma
            count = i - place[target[i]] + 1
            loaded = loads
        }
    }
    print most + 0, count + 0, loaded + 0
}

#!/bin/bash
# `make dist`: its files are listed and signed in SHA256SUMS, stock tools check sums, signatures, SBOM and provenance,
# and the same program gives the same bytes in another directory.
# serial
. "$TOP/tests/common.inc"
need make jq openssl sha256sum base64
"$REPRO" key new >key.txt 2>&1 || fail "no key: $(cat key.txt)"
cp "$HOME/.config/repro/key.pem" signer.pem
of_build() { # KEY
    "$REPRO" version --json | jq -r --arg k "$1" '.[$k]'
}

# signed
REPRO_KEY=$PWD/signer.pem make -s -C "$TOP" BUILD="$BUILD" dist >made.txt 2>&1 || fail "make dist: $(cat made.txt)"
cp -r "$BUILD/dist" dist
name=$(cd dist && echo repro-*.spdx.json)
name=${name%.spdx.json}
[ "$name" = "repro-$(of_build version)-linux-$(uname -m)" ] || fail "the program is called $name"
(cd dist && printf '%s\n' *) >files.txt
printf '%s\n' LICENSES.txt SHA256SUMS SHA256SUMS.minisig _repro key.pem minisign.pub "$name" "$name.intoto.dsse.json" \
    "$name.spdx.json" repro.1 repro.bash repro.fish | sort | diff - files.txt >&2 || fail "other files"
cmp "dist/$name" "$REPRO"
cmp <("$REPRO" help --man) dist/repro.1
bash -n dist/repro.bash
says_in "signed by $("$REPRO" key show signer.pem | grep -o 'SHA256:[0-9a-f]*')" made.txt

# sums
(cd dist && sha256sum -c --strict --quiet SHA256SUMS)
grep -vx -e SHA256SUMS -e SHA256SUMS.minisig files.txt | diff - <(cut -c67- dist/SHA256SUMS) >&2 ||
    fail "SHA256SUMS does not list every file"

# signature of the sums, with openssl, and with minisign where it is installed
signed_sums() { # FILE
    sed -n 2p dist/SHA256SUMS.minisig | base64 -d | tail -c 64 >sig
    openssl dgst -blake2b512 -binary "$1" >digest
    openssl pkeyutl -verify -pubin -inkey dist/key.pem -rawin -in digest -sigfile sig >/dev/null 2>&1
}
signed_sums dist/SHA256SUMS || fail "openssl refuses the signature of SHA256SUMS"
sed '1s/^./x/' dist/SHA256SUMS >changed
! signed_sums changed || fail "a changed SHA256SUMS passes"
! command -v minisign >/dev/null || minisign -q -V -p dist/minisign.pub -m dist/SHA256SUMS

# provenance, with openssl and jq
envelope=dist/$name.intoto.dsse.json
jq -r .payload "$envelope" | base64 -d >statement.json
jq -r '.signatures[0].sig' "$envelope" | base64 -d >sig
type=$(jq -r .payloadType "$envelope")
{ printf 'DSSEv1 %d %s %d ' ${#type} "$type" "$(stat -c %s statement.json)" && cat statement.json; } >pae
openssl pkeyutl -verify -pubin -inkey dist/key.pem -rawin -in pae -sigfile sig >/dev/null ||
    fail "openssl refuses the provenance"
[ "$(jq -r '._type, .predicateType' statement.json | xargs -n1)" = "https://in-toto.io/Statement/v1
https://slsa.dev/provenance/v1" ] || fail "the provenance is not a statement of SLSA v1"
build_definition() { # JQ_FILTER
    jq -r ".predicate.buildDefinition.$1" statement.json
}
[ "$(build_definition externalParameters.commit)" = "$(of_build commit)" ] || fail "the provenance has another commit"
jq -r '.subject[] | .digest.sha256 + "  " + .name' statement.json >subjects.txt
(cd dist && sha256sum -c --strict --quiet ../subjects.txt)
says_in "  $name" subjects.txt

# provenance, with this program
bom=dist/$name.spdx.json
name_of_envelope=${envelope#dist/}
in_dist() { # STATUS ARGUMENT...: verify in a copy of the folder
    want=$1
    shift
    exit_of "$want" env -C dist "$REPRO" verify "$name_of_envelope" "$@"
}
in_dist 0
says_in "release verified: 7 of 7 files are those of the release" out.txt
in_dist 0 --trust key.pem --json
jq -e --arg c "$(of_build commit)" '.verdict == "release-verified" and .exit == 0 and .provenance.commit == $c
    and ([.provenance.files[].state] | unique) == ["passed"]' out.txt >answer.txt || fail "the document: $(cat out.txt)"
cp out.txt verified.json
exit_of 0 "$REPRO" schema verify-output verified.json
"$REPRO" key new -o other.pem >/dev/null 2>&1
"$REPRO" key show --form pem other.pem >other.pub
in_dist 6 --trust "$PWD/other.pub"
in_dist 2 --replay 1
HOME=$PWD/nobody XDG_CONFIG_HOME=$PWD/nobody in_dist 8
HOME=$PWD/nobody XDG_CONFIG_HOME=$PWD/nobody in_dist 0 --any-key
exit_of 2 env -C dist "$REPRO" verify "$name_of_envelope" "$name_of_envelope"
cp -r dist changed_dist
cp "$envelope" changed_dist/run.repro.tar.zst # for a script that expects a bundle
exit_of 4 env -C changed_dist "$REPRO" verify run.repro.tar.zst --any-key
echo >>changed_dist/repro.1
rm changed_dist/_repro
exit_of 5 "$REPRO" verify "changed_dist/$name_of_envelope"
says_in "FAILED: 5 of 7 files are those of the release" out.txt
grep -Eq '^FAILED +repro\.1$' out.txt && grep -Eq '^missing +_repro$' out.txt || fail "which: $(cat out.txt)"
sed 's/"payload": "ewog/"payload": "ewoh/' "dist/$name_of_envelope" >"changed_dist/$name_of_envelope"
exit_of 6 "$REPRO" verify "changed_dist/$name_of_envelope"
cp "$bom" changed_dist/bom.intoto.dsse.json
exit_of 4 "$REPRO" verify changed_dist/bom.intoto.dsse.json
says "neither a bundle nor the provenance of a release"

# SBOM: every row of the lock, nothing else but the compiler's library and what the GPU worker needs
jq -e '.spdxVersion == "SPDX-2.3" and .dataLicense == "CC0-1.0"
    and (.packages | all(.SPDXID and .downloadLocation and .licenseDeclared))
    and ([.packages[].SPDXID] | length == (unique | length))
    and ([.packages[].SPDXID, "SPDXRef-DOCUMENT"] as $ids | .relationships
        | all([.spdxElementId, .relatedSpdxElement] - $ids == []))' "$bom" >/dev/null || fail "the SBOM is not SPDX 2.3"
jq -r '.packages[] | [.checksums[0].checksumValue, .packageFileName, .versionInfo] | @tsv' "$bom" | sort >listed.txt
awk -F'\t' '!/^#/ {print $5 "\t" $4 "\t" $2}' "$TOP/env/deps.lock" | sort >locked.txt
grep -q fell-forward "$BUILD/static/gen/deps.txt" || {
    comm -13 listed.txt locked.txt | sed 's/^/in deps.lock only: /' >&2
    [ -z "$(comm -13 listed.txt locked.txt)" ] || fail "packages are missing in the SBOM"
    comm -23 listed.txt locked.txt | cut -f2 |
        grep -v -e ^nvidia_ -e '^libgcc\.a$' -e ^libcudart_static >others.txt || :
    [ "$(cat others.txt)" = "$name" ] || fail "the SBOM has more than deps.lock: $(cat others.txt)"
}
"$REPRO" version --licenses | sed -n 's/^==== \(lib\)*\(.*\) ====$/\2/p' | sort >texts.txt
jq -r '.packages[].name | sub("-debian-patches$|-utils$"; "") | ltrimstr("lib")' "$bom" | sort -u >named.txt
comm -13 named.txt texts.txt >unnamed.txt
[ ! -s unnamed.txt ] || fail "a licence is printed, but not in the SBOM: $(cat unnamed.txt)"

# again, elsewhere
mkdir -p "other place/env"
cp "$TOP/env/dist.sh" "other place/env/"
cp "$REPRO" "other place/program"
cp "$BUILD/static/gen/deps.txt" "other place/"
again() { # KEY DEPS_TXT
    variables=$(build_definition 'externalParameters.variables | to_entries[] | .key + "=" + .value')
    # shellcheck disable=SC2086 # none, or one without blanks
    (
        cd "other place"
        umask 077
        export HOME=/nonexistent TZ=Asia/Tokyo LC_ALL=C.UTF-8 REPRO_KEY=$1
        SOURCE_DATE_EPOCH=$(cd .. && build_definition internalParameters.source_date_epoch)
        state=$(cd .. && build_definition externalParameters.tree)
        export SOURCE_DATE_EPOCH
        env/dist.sh made ./program "$2" "$(of_build version)" "$(of_build commit)" "$state" "$(uname -m)" $variables
    )
}
again ../signer.pem deps.txt >/dev/null
diff -r dist "other place/made" >&2 || fail "the bytes differ"
[ -z "$(find "other place/made" -type f ! -perm -444)" ] || fail "files that not everybody can read"

# without a key
again "" deps.txt >unsigned.txt
says_in "not signed" unsigned.txt
(cd "other place/made" && sha256sum -c --strict --quiet SHA256SUMS && printf '%s\n' *) >files.txt
if grep -e minisig -e dsse -e 'key\.pem' files.txt; then fail "signatures without a key"; fi
cmp statement.json "other place/made/$name.intoto.json" || fail "the statement depends on the key"

# a dependency without a known licence
{ cat "$BUILD/static/gen/deps.txt" && echo "newlib 1 $(printf %064d 0) newlib.tar"; } >"other place/more.txt"
if again "" more.txt >out.txt 2>err.txt; then fail "a dependency without a licence passes"; fi
says "licence of 'newlib' is not known"

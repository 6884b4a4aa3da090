#!/bin/sh
# Images through the command line: made, packed from a folder, checked in several formats, timed, and damage is named with file, record and remedy.
. "$TEST_DIR/common.inc"
jpeg=$TOP/tests/fuzz/corpus/jpeg

"$REPRO" data make images one --json >made.json
jq -e '.sequences == 64 and .shards == 1' made.json >answer.txt || { cat made.json >&2; fail "wrong counts"; }
"$REPRO" data check one --format imagenet_tfrecord --json >check.json
jq -e '.records == 64 and .classes == 8 and .smallest_label == 1 and .largest_label == 8 and .gray == 4 and .cmyk == 2 and .several_scans == 4 and
    .damaged == 0' check.json >answer.txt || { cat check.json >&2; fail "wrong counts"; }
"$REPRO" data check embedded:imagenet_sample.tar.zst --format imagenet_tfrecord --json >embedded.json
[ "$(jq .digest embedded.json)" = "$(jq .digest check.json)" ] || fail "the sample is not what data make makes"
"$REPRO" data check one --format imagenet_tfrecord --threads 1 --json | cmp - check.json
"$REPRO" data check one --format imagenet_tfrecord
JSIMD_FORCENONE=1 "$REPRO" data make images plain >out.txt
diff -r one plain

# a folder of class folders, and the same as TFRecord files
mkdir -p folder/n02 folder/n01 folder/n10
cp "$jpeg/420.jpg" "$jpeg/gray.jpg" folder/n01/
cp "$jpeg/progressive.jpg" "$jpeg/exif.jpg" folder/n02/
cp "$jpeg/cmyk.jpg" folder/n10/cmyk.JPEG
"$REPRO" data check folder --format image_folder
"$REPRO" data make imagenet_tfrecord packed folder --shards 2 --json >made.json
jq -e '.images == 5 and .classes == 3 and .shards == 2' made.json >answer.txt || { cat made.json >&2; fail "wrong counts"; }
[ "$(ls packed)" = "images-00000-of-00002
images-00001-of-00002" ] || { ls packed >&2; fail "other files"; }
grep -q n02 packed/images-00001-of-00002 || fail "the class's name is not in its records"
for path in folder:image_folder packed:imagenet_tfrecord; do
    "$REPRO" data check "${path%:*}" --format "${path#*:}" --json | jq '[.records, .classes, .pixels, .gray, .cmyk, .several_scans, .oriented]' >"${path%:*}.txt"
done
diff folder.txt packed.txt

"$REPRO" data bench one --threads 1,2 --seconds 1 --image-size 64 --json >bench.json
jq -e '.records == 64 and (.results | map(.threads)) == [1, 2] and all(.results[]; .images >= 64 and .images_per_second > 0)' bench.json >answer.txt ||
    { cat bench.json >&2; fail "no rates"; }
"$REPRO" data bench folder --format image_folder --threads 1 --seconds 1 --augment none >bench.txt
grep -qE '^ +1 thread +[0-9.]+ images/s +[0-9.]+ a thread$' bench.txt || { cat bench.txt >&2; fail "no table"; }

# refusals
refused() { # STATUS ARGUMENT...
    want=$1
    shift
    exit_of "$want" "$REPRO" "$@"
    words
}
refused 2 data make imagenet_tfrecord packed folder --shards 2
"$REPRO" data make imagenet_tfrecord packed folder --shards 2 --force >out.txt
refused 2 data make imagenet_tfrecord packed folder --shards 6
refused 2 data make imagenet_tfrecord packed folder folder
refused 2 data make imagenet_tfrecord x.tar.zst folder
refused 2 data make imagenet_tfrecord packed folder --seed 3
refused 2 data bench one --format llmc
refused 2 data bench one --threads 1,x
refused 3 data check none --format image_folder
refused 4 data check one --format imagenet_tfrecord --label-base 0 --below label=8
refused 4 data check one --format imagenet_tfrecord --below label=7
head -c 300 "$jpeg/420.jpg" >folder/n01/cut.jpg
refused 4 data check folder --format image_folder
refused 4 data make imagenet_tfrecord again folder
"$REPRO" data check folder --format image_folder --skip-damaged --json | jq -e '.damaged == 1 and .records == 6' >answer.txt || fail "damaged images are not counted"
printf 'X' | dd of=one/images-00000-of-00001 bs=1 seek=300 conv=notrunc 2>/dev/null
refused 4 data check one --format imagenet_tfrecord
"$REPRO" data check one --format imagenet_tfrecord --skip-damaged --json | jq -e '.damaged == 1' >answer.txt || fail "the damaged record is not counted"

# sizes and forms at the edges: one pixel is an image, also to train on; what is too large or of another form is named
edge() { # NAME FILE MARKER OFFSET BYTES: a copy of which bytes after the marker are replaced
    mkdir -p edges/a edges/b
    cp "$jpeg/$2" "edges/a/$1.jpg"
    at=$(LC_ALL=C grep -obUaP "\\xff\\x$3" "edges/a/$1.jpg" | head -n 1 | cut -d : -f 1)
    # shellcheck disable=SC2059 # escapes
    printf "$5" | dd of="edges/a/$1.jpg" bs=1 seek=$((at + $4)) conv=notrunc 2>/dev/null
    refused 4 data check edges --format image_folder
    mv "edges/a/$1.jpg" "$1.jpg"
}
mkdir -p edges/a edges/b
cp "$jpeg/one.jpg" edges/a/
cp "$jpeg/one.jpg" edges/b/
cp "$jpeg/exif.jpg" edges/b/turned.jpg
"$REPRO" data check edges --format image_folder
"$REPRO" run resnet50_tiny_fp32 --set data.path=edges --set data.format=image_folder --set model.num_classes=2 --set task.image_size=32 --steps 1 --set measure.warmup_steps=0 \
    --set measure.repeats=1 --set measure.ceilings=false -o edges.zst >out.txt 2>err.txt || { cat err.txt >&2; fail "one pixel cannot be trained on"; }
edge huge 420.jpg c0 5 '\116\040\116\040'           # 20000x20000
edge bomb gray.jpg c0 5 '\037\100\037\100'          # 8000x8000 of a few bytes
edge coefficients progressive.jpg c2 5 '\037\100\037\100'
edge twelve gray.jpg c0 4 '\014'
edge lossless gray.jpg c0 1 '\303'
edge arithmetic gray.jpg c0 1 '\311'
edge empty gray.jpg c0 5 '\0\0\0\0'
head -c 200 "$jpeg/progressive.jpg" >edges/a/cut.jpg
refused 4 data check edges --format image_folder
rm edges/a/cut.jpg
printf '\211PNG\r\n\032\n' >edges/a/picture.jpg
refused 4 data check edges --format image_folder
cp huge.jpg bomb.jpg coefficients.jpg twelve.jpg lossless.jpg arithmetic.jpg empty.jpg edges/a/
"$REPRO" data check edges --format image_folder --skip-damaged --json | jq -e '.damaged == 8 and .records == 11 and .oriented == 1 and .largest_image == 96' >answer.txt ||
    fail "what is refused is not what is counted"

#!/usr/bin/env python3
"""Files of training data by their real writers, read here: the same samples give the same bits.

BERT     records of `data make bert`, read and written again by TensorFlow (plain, GZIP, ZLIB), h5py (as NVIDIA's create_pretraining_data.py:
         gzip; also shuffled, contiguous and in several files) and protobuf's encoder of OneFlow's OFRecord. A run on each has the losses of
         the run on the original, bit for bit. h5py's own reading of the files is compared with TensorFlow's of the records.
images   a data set with the features of imagenet2012 by TensorFlow Datasets, against the same images in a folder, as torchvision would read it.

usage: data_formats.py REPRO SCRATCH       compares
       data_formats.py --vectors DIR       writes the samples of tests/vectors/data
"""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import h5py
import numpy
import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

INTS = ["input_ids", "input_mask", "segment_ids", "masked_lm_positions", "masked_lm_ids", "next_sentence_labels"]
NARROW = {"input_mask", "segment_ids", "next_sentence_labels"}  # int8 in NVIDIA's files
CORPUS = pathlib.Path(__file__).resolve().parent.parent / "fuzz" / "corpus" / "jpeg"


def ofrecord_class():
    """OneFlow's message (oneflow/core/record/record.proto), as protobuf makes it of the declaration."""
    file = descriptor_pb2.FileDescriptorProto(name="record.proto", package="oneflow", syntax="proto2")
    kinds = [("BytesList", "TYPE_BYTES"), ("FloatList", "TYPE_FLOAT"), ("DoubleList", "TYPE_DOUBLE"),
             ("Int32List", "TYPE_INT32"), ("Int64List", "TYPE_INT64")]
    proto = descriptor_pb2.FieldDescriptorProto
    for name, kind in kinds:
        field = file.message_type.add(name=name).field.add(name="value", number=1, label=proto.LABEL_REPEATED, type=getattr(proto, kind))
        if kind != "TYPE_BYTES":
            field.options.packed = True
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, (name, _) in enumerate(kinds, 1):
        feature.field.add(name=name[:-4].lower() + "_list", number=number, label=proto.LABEL_OPTIONAL, type=proto.TYPE_MESSAGE,
                          type_name=f".oneflow.{name}", oneof_index=0)
    record = file.message_type.add(name="OFRecord")
    entry = record.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=proto.LABEL_OPTIONAL, type=proto.TYPE_STRING)
    entry.field.add(name="value", number=2, label=proto.LABEL_OPTIONAL, type=proto.TYPE_MESSAGE, type_name=".oneflow.Feature")
    record.field.add(name="feature", number=1, label=proto.LABEL_REPEATED, type=proto.TYPE_MESSAGE, type_name=".oneflow.OFRecord.FeatureEntry")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("oneflow.OFRecord"))


def example(sample):
    feature = {n: tf.train.Feature(int64_list=tf.train.Int64List(value=sample[n])) for n in INTS}
    feature["masked_lm_weights"] = tf.train.Feature(float_list=tf.train.FloatList(value=sample["masked_lm_weights"]))
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def write_tfrecord(path, messages, compression):
    with tf.io.TFRecordWriter(str(path), tf.io.TFRecordOptions(compression_type=compression)) as w:
        for message in messages:
            w.write(message)


def write_ofrecord(path, samples):
    cls = ofrecord_class()
    with open(path, "wb") as f:
        for s in samples:
            record = cls()
            for n in INTS:
                record.feature[n].int32_list.value.extend(int(v) for v in s[n])
            record.feature["masked_lm_weights"].float_list.value.extend(float(v) for v in s["masked_lm_weights"])
            data = record.SerializeToString()
            f.write(struct.pack("<q", len(data)) + data)


def write_hdf5(path, samples, **options):
    """The lines of create_pretraining_data.py (DeepLearningExamples, PyTorch/LanguageModeling/BERT)."""
    with h5py.File(path, "w") as f:
        for n in INTS:
            rows = numpy.array([s[n] for s in samples], dtype=numpy.int64)
            rows = rows[:, 0] if n == "next_sentence_labels" else rows
            f.create_dataset(n, data=rows, dtype="i1" if n in NARROW else "i4", **options)


def read_samples(paths):
    feature = {n: tf.io.VarLenFeature(tf.int64) for n in INTS} | {"masked_lm_weights": tf.io.VarLenFeature(tf.float32)}
    samples, messages = [], []
    for raw in tf.data.TFRecordDataset([str(p) for p in paths]).as_numpy_iterator():
        parsed = tf.io.parse_single_example(raw, feature)
        samples.append({n: tf.sparse.to_dense(x).numpy() for n, x in parsed.items()})
        messages.append(raw)
    return samples, messages


def run(repro, scratch, recipe, *settings):
    bundle = scratch / "run.repro.tar.zst"
    bundle.unlink(missing_ok=True)
    command = [repro, "run", recipe, "--key", scratch / "key.pem", "-o", bundle, "--steps", "3"]
    for s in ("measure.warmup_steps=0", "measure.repeats=1", "measure.ceilings=false") + settings:
        command += ["--set", s]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{settings}: {done.stderr}")
    text = subprocess.run(["tar", "--zstd", "-xOf", bundle, "--wildcards", "*steps/rank0.jsonl"], check=True, capture_output=True).stdout
    return [(r["loss"], r["grad_norm"], r["counters"]) for r in map(json.loads, text.splitlines()) if r["step"] >= 0]


def bert(repro, scratch):
    subprocess.run([repro, "data", "make", "bert", scratch / "made", "--sequences", "300", "--shards", "2", "--force"], check=True,
                   stdout=subprocess.DEVNULL)
    samples, messages = read_samples(sorted((scratch / "made").glob("*.tfrecord")))
    formats = {"plain": "bert_tfrecord", "gzip": "bert_tfrecord", "zlib": "bert_tfrecord", "members": "bert_tfrecord", "ofrecord": "bert_ofrecord",
               "hdf5": "bert_hdf5", "hdf5_shuffle": "bert_hdf5", "hdf5_contiguous": "bert_hdf5", "hdf5_chunks": "bert_hdf5"}
    for name in formats:
        (scratch / name).mkdir()
    for part, (a, b) in enumerate(((0, 120), (120, 121), (121, 300))):
        write_tfrecord(scratch / "plain" / f"{part}.tfrecord", messages[a:b], "")
        write_tfrecord(scratch / "gzip" / f"{part}.tfrecord", messages[a:b], "GZIP")
        write_tfrecord(scratch / "zlib" / f"{part}.tfrecord", messages[a:b], "ZLIB")
        write_ofrecord(scratch / "ofrecord" / f"part-{part:05}", samples[a:b])
        write_hdf5(scratch / "hdf5" / f"{part}.hdf5", samples[a:b], compression="gzip")
        write_hdf5(scratch / "hdf5_shuffle" / f"{part}.hdf5", samples[a:b], compression="gzip", compression_opts=9, shuffle=True)
        write_hdf5(scratch / "hdf5_contiguous" / f"{part}.hdf5", samples[a:b])
    write_hdf5(scratch / "hdf5_chunks" / "all.h5", samples, compression="gzip")
    (scratch / "members" / "all.tfrecord.gz").write_bytes(b"".join((scratch / "gzip" / f"{part}.tfrecord").read_bytes() for part in range(3)))
    with h5py.File(scratch / "hdf5_chunks" / "all.h5") as f:
        if any(not numpy.array_equal(f[n][i], s[n] if f[n].ndim == 2 else s[n][0]) for i, s in enumerate(samples) for n in INTS):
            sys.exit("h5py reads other values than were written")
    for shuffle in "false", "true":
        truth = run(repro, scratch, "bert_tiny_fp32", f"data.path={scratch}/made", f"data.shuffle={shuffle}")
        for name, form in formats.items():
            if run(repro, scratch, "bert_tiny_fp32", f"data.path={scratch}/{name}", f"data.format={form}", f"data.shuffle={shuffle}") != truth:
                sys.exit(f"{name}: other losses than those of the records that it was made from")
    print(f"data formats: {len(formats)} forms of {len(samples)} samples of BERT have the same losses")


def write_tfds(scratch, files):
    """A builder with the features of imagenet2012, whose files TensorFlow Datasets writes: two classes, the first half in the first."""
    import tensorflow_datasets as tfds

    class Imagenet2012(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("5.1.0")

        def _info(self):
            return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict({
                "image": tfds.features.Image(encoding_format="jpeg"), "label": tfds.features.ClassLabel(num_classes=2),
                "file_name": tfds.features.Text()}))

        def _split_generators(self, manager):
            return {"train": self._generate_examples()}

        def _generate_examples(self):
            for i, f in enumerate(files):
                yield f"{i}", {"image": str(f), "label": 2 * i // len(files), "file_name": f.name}

    builder = Imagenet2012(data_dir=str(scratch))
    builder.download_and_prepare()
    records = [(r["file_name"].decode(), int(r["label"])) for r in tfds.as_numpy(builder.as_dataset(split="train"))]
    return records, scratch / "imagenet2012" / "5.1.0"


def tfds_images(repro, scratch):
    """The same images in a folder."""
    files = [CORPUS / n for n in ("420.jpg", "gray.jpg", "progressive.jpg", "exif.jpg")]
    records, path = write_tfds(scratch / "tfds", files)
    for i, (name, label) in enumerate(records):
        place = scratch / "folder" / f"class{label}"
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(CORPUS / name, place / f"{i}.jpg")
    keys = ("records", "classes", "pixels", "gray", "several_scans", "oriented", "smallest_label", "largest_label")
    facts = []
    for where, form in ((path, "imagenet_tfrecord"), (scratch / "folder", "image_folder")):
        text = subprocess.run([repro, "data", "check", where, "--format", form, "--json"], check=True, capture_output=True).stdout
        facts.append({k: v for k, v in json.loads(text).items() if k in keys})
    if facts[0] != facts[1] or facts[0]["records"] != len(files):
        sys.exit(f"TensorFlow Datasets: {facts[0]}, the folder: {facts[1]}")
    print(f"data formats: {len(files)} images of TensorFlow Datasets are those of a folder; files {sorted(p.name for p in path.iterdir())}")


def vectors(out):
    """Three samples as tests/unit/data_fixture.h makes them, by each writer; two images by TensorFlow Datasets."""
    out.mkdir(parents=True, exist_ok=True)
    samples = []
    for n in range(3):
        tokens = [10 + (i + n) % 40 for i in range(6)]
        samples.append({"input_ids": tokens + [0, 0], "input_mask": [1] * 6 + [0, 0], "segment_ids": [0] * 4 + [1, 1, 0, 0],
                        "masked_lm_positions": [1, 4] if n != 1 else [1, 0], "masked_lm_ids": [11, 14] if n != 1 else [11, 0],
                        "masked_lm_weights": [1.0, 1.0] if n != 1 else [1.0, 0.0], "next_sentence_labels": [n % 2]})
    messages = [example(s) for s in samples]
    write_tfrecord(out / "gzip.tfrecord", messages, "GZIP")
    write_tfrecord(out / "zlib.tfrecord", messages, "ZLIB")
    write_ofrecord(out / "part-00000", samples)
    write_hdf5(out / "gzip.hdf5", samples, compression="gzip")
    write_hdf5(out / "contiguous.hdf5", samples)
    with h5py.File(out / "chunks.hdf5", "w") as f:  # edges: chunks of two rows and three columns
        for n in INTS:
            rows = numpy.array([s[n] for s in samples])
            rows = rows[:, 0] if n == "next_sentence_labels" else rows
            f.create_dataset(n, data=rows, dtype="i8" if n == "input_ids" else "u2", compression="gzip", shuffle=n != "input_mask",
                             chunks=(2,) if rows.ndim == 1 else (2, min(3, rows.shape[1])))
    with h5py.File(out / "latest.hdf5", "w", libver="latest") as f:
        f.create_dataset("input_ids", data=numpy.zeros((3, 8), "i4"))
    with tempfile.TemporaryDirectory() as scratch:
        path = write_tfds(pathlib.Path(scratch), [CORPUS / "420.jpg", CORPUS / "gray.jpg"])[1]
        shutil.copy(path / "imagenet2012-train.tfrecord-00000-of-00001", out)


def main():
    if sys.argv[1] == "--vectors":
        vectors(pathlib.Path(sys.argv[2]))
        return
    repro, scratch = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve() / "formats"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    subprocess.run([repro, "key", "new", "-o", scratch / "key.pem"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    bert(repro, scratch)
    tfds_images(repro, scratch)


if __name__ == "__main__":
    main()

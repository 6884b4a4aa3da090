#!/usr/bin/env python3
"""Compare the ids of `repro data make` with those of the public tokenizers package, on odd texts.

usage: bpe.py REPRO SCRATCH [VOCAB.json MERGES.txt]
       bpe.py --vectors tests/vectors/bpe      write the vectors of tests/unit/test_data_text.c again
A small byte-level vocabulary is trained here, unless one is named (GPT-2's own, where there is a copy). Compared: vocab.json with merges.txt
against tokenizer.json, texts as files and as lines of JSON, in the formats tokens and megatron. Prints megabytes a second of both.
"""
import array
import json
import os
import pathlib
import random
import subprocess
import sys
import time

os.environ["RAYON_NUM_THREADS"] = "1"
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

ODD = [
    "a", " ", "\n", "  ", " a", "a ", "  a", "a  ", "\t\ta\n\n", "it's we're I've I'll he'd I'm 'tis 'S it'S don''t ''ll '", "x" * 3000, " " * 999 + "z",
    "aaaaaaaaab" * 50, "1234567890 12,345.67 ½ ² Ⅷ ٣ 五 1st a1b2", "naïve café Straße ŒUVRE ǅ ﬁ", "日本語のテキスト、句読点。 中文 한국어", "مرحبا بالعالم ١٢٣",
    "नमस्ते दुनिया", "e\u0301 a\u0308 \u200d\u200b\ufeff", "👩‍👩‍👧‍👦 👍🏽 🇩🇪", "\u00a0a\u00a0\u00a0b \u2003\u2003c\u3000d \u1680e \u180ef \u2028g\u0085h \x1c\x1d\x1f i",
    "\x00\x01\x7f\x80\xad", "<|endoftext|> <|endoftext|>", "a\r\nb\r\n\r\n c", "foo_bar(baz)->qux[0] == \"x\\n\"; // !!! ???", "\U0010ffff\ue000\ud7ff\ufffd",
    "𝐀𝟏𝔞 𐍈 𠀀", "''''s 's' 'sa 'rea 've1", " 's 't", "\n's", "A'B C'D'E", " \n \n  x \n", "\u1c89\ua7cb\U00010d40",
]


def random_text(r):
    pools = ["abcdefgh ", "ab  \n\t", "'sdtmrevll ", "0123 ½²", "éß日本語 \u00a0\u3000", ".,;:!?-()[]", "".join(map(chr, range(1, 0x250)))]
    pools.append([chr(c) for c in (r.randrange(0x20, 0x30000) for _ in range(200)) if not 0xd800 <= c < 0xe000])
    return "".join(r.choice(r.choice(pools)) for _ in range(r.randrange(1, 300)))


def byte_level(model):
    t = Tokenizer(model)
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    return t


def trained(texts, size):
    t = byte_level(models.BPE())
    t.train_from_iterator(texts * 2, trainers.BpeTrainer(vocab_size=size, special_tokens=["<|endoftext|>"], show_progress=False,
                                                         initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return t


def ids_of(text):
    return tokenizer.encode(text, add_special_tokens=False).ids


def lines_of(texts):
    return "".join(json.dumps({"text": t, "other": 1}) + "\n" for t in texts if "\0" not in t)


r = random.Random(1)
if sys.argv[1] == "--vectors":
    out = pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    texts = [t[:300] for t in ODD if "\0" not in t] + [random_text(r)[:100] for _ in range(100)]
    tokenizer = trained(texts + ["the quick brown fox they're there that then 1234 12 123"] * 9, 500)
    tokenizer.model.save(str(out))
    tokenizer.save(str(out / "tokenizer.json"))
    tokenizer.encode_special_tokens = True
    (out / "texts.jsonl").write_text(lines_of(texts), encoding="utf-8")
    (out / "ids.txt").write_text("".join(" ".join(map(str, ids_of(t))) + "\n" for t in texts), encoding="utf-8")
    sys.exit()

repro, scratch = sys.argv[1], pathlib.Path(sys.argv[2]) / "bpe"
scratch.mkdir(parents=True, exist_ok=True)
texts = ODD + [random_text(r) for _ in range(3000)]
if len(sys.argv) > 3:
    vocab, merges = sys.argv[3:5]
    tokenizer = byte_level(models.BPE.from_file(vocab, merges))
    forms = [["--vocab", vocab, "--merges", merges]]
else:
    tokenizer = trained(texts, 5000)
    vocab, merges = tokenizer.model.save(str(scratch))
    tokenizer.save(str(scratch / "tokenizer.json"))
    forms = [["--vocab", vocab, "--merges", merges], ["--tokenizer", str(scratch / "tokenizer.json")]]
tokenizer.encode_special_tokens = True
eod = json.load(open(vocab, encoding="utf-8"))["<|endoftext|>"]


def made(name, files, form):
    out = scratch / name
    subprocess.run([repro, "data", "make", "tokens", str(out), *map(str, files), *form, "--token-bytes", "4", "--force", "-q"], check=True,
                   stdout=subprocess.DEVNULL)
    return list(array.array("I", (out / "text-00000-of-00001.bin").read_bytes()))


def compare(got, want, what):
    if got == want:
        return
    at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
    sys.exit(f"{what}: ids differ at {at}: {got[at:at + 8]} here, {want[at:at + 8]} by tokenizers")


lines = scratch / "texts.jsonl"
lines.write_text(lines_of(texts), encoding="utf-8")
files = []
for i, t in enumerate(ODD):
    files.append(scratch / f"odd-{i:02d}.txt")
    files[-1].write_bytes(t.encode())
for form in forms:
    compare(made("lines", [lines], form), [i for t in texts if "\0" not in t for i in ids_of(t) + [eod]], "lines of JSON")
    compare(made("files", files, form), [i for t in ODD for i in ids_of(t) + [eod]], "files")

# every character, alone and between letters
every = [chr(c) for c in range(1, 0x110000) if not 0xd800 <= c < 0xe000]
text = "".join(f"a{c}b {c} 1{c}\n" for c in every[::7] + every[:0x3000])
(scratch / "every.txt").write_bytes(text.encode())
compare(made("every", [scratch / "every.txt"], forms[0]), ids_of(text) + [eod], "every character")

# speed, in processor time: words that come up again, as in a corpus
words = [w for t in texts for w in t.split()][:20000]
text = " ".join(r.choice(words) if r.random() < 0.3 else r.choice(words[:1000]) for _ in range(1_000_000))
data = text.encode()
(scratch / "speed.txt").write_bytes(data)
start = os.times()
made("speed", [scratch / "speed.txt"], forms[0])
middle = os.times()
for i in range(0, len(text), 100_000):
    ids_of(text[i:i + 100_000])
end = os.times()
ours = middle.children_user + middle.children_system - start.children_user - start.children_system
theirs = end.user + end.system - middle.user - middle.system
print(f"bpe: {len(texts)} texts and {len(every[::7]) + 0x3000} characters agree; {len(data) / ours / 1e6:.1f} MB/s here with start and files, "
      f"{len(data) / theirs / 1e6:.1f} MB/s by tokenizers, one thread each")

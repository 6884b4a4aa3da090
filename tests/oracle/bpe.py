#!/usr/bin/env python3
"""Compare the ids of `repro data make` with those of the public tokenizers package, on odd texts.

usage: bpe.py REPRO SCRATCH [VOCAB.json MERGES.txt]
A small byte-level vocabulary is trained here, unless one is named (GPT-2's own, where there is a copy). Compared: vocab.json with merges.txt
against tokenizer.json, texts as files and as lines of JSON, in the formats tokens and megatron. Prints megabytes a second of both.
"""
import array
import json
import pathlib
import random
import subprocess
import sys
import time

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

repro, scratch = sys.argv[1], pathlib.Path(sys.argv[2]) / "bpe"
scratch.mkdir(parents=True, exist_ok=True)

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


r = random.Random(1)
texts = ODD + [random_text(r) for _ in range(3000)]

if len(sys.argv) > 3:
    vocab, merges = sys.argv[3:5]
    tokenizer = Tokenizer(models.BPE.from_file(vocab, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
else:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts * 2, trainers.BpeTrainer(
        vocab_size=5000, special_tokens=["<|endoftext|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    vocab, merges = tokenizer.model.save(str(scratch))
tokenizer.save(str(scratch / "tokenizer.json"))
tokenizer.encode_special_tokens = True
eod = json.load(open(vocab, encoding="utf-8"))["<|endoftext|>"]
trained = len(sys.argv) <= 3
forms = [["--vocab", vocab, "--merges", merges]] + ([["--tokenizer", str(scratch / "tokenizer.json")]] if trained else [])


def ids_of(text):
    return tokenizer.encode(text, add_special_tokens=False).ids


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


want = [i for t in texts for i in ids_of(t) + [eod]]
lines = scratch / "texts.jsonl"
lines.write_text("".join(json.dumps({"text": t, "other": 1}) + "\n" for t in texts if "\0" not in t), encoding="utf-8")
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

# speed: words that come up again, as in a corpus
words = [w for t in texts for w in t.split()][:20000]
text = " ".join(r.choice(words) if r.random() < 0.3 else r.choice(words[:1000]) for _ in range(3_000_000))
data = text.encode()
(scratch / "speed.txt").write_bytes(data)
parts = [text[i:i + 100_000] for i in range(0, len(text), 100_000)]
start = time.monotonic()
made("speed", [scratch / "speed.txt"], forms[0])
ours = time.monotonic() - start
start = time.monotonic()
for p in parts:
    ids_of(p)
theirs = time.monotonic() - start
print(f"bpe: {len(texts)} texts and {len(every[::7]) + 0x3000} characters agree; {len(data) / ours / 1e6:.1f} MB/s here with start and files, "
      f"{len(data) / theirs / 1e6:.1f} MB/s by tokenizers, one thread each")

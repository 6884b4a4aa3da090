#!/usr/bin/env python3
"""Write src/data/text/unicode.def: the letters and numbers of Unicode 16.0, as ranges.

usage: unicode-ranges.py >src/data/text/unicode.def
Needs Python 3.14, or the package unicodedata2 16.0.0: other versions know other letters. 16.0 is the version of the
tokenizers package 0.23, which tests/oracle/bpe.py compares with.
"""
import sys
import unicodedata

if unicodedata.unidata_version != "16.0.0":
    import unicodedata2 as unicodedata
if unicodedata.unidata_version != "16.0.0":
    sys.exit(f"Unicode {unicodedata.unidata_version}, expected 16.0.0")

print("/* Letters (general categories L*) and numbers (N*) of Unicode 16.0.0, ascending. Made by env/unicode-ranges.py. */")
ranges = []
for c in range(0x110000):
    kind = {"L": "LETTERS", "N": "NUMBERS"}.get(unicodedata.category(chr(c))[0])
    if kind and ranges and ranges[-1][0] == kind and ranges[-1][2] == c - 1:
        ranges[-1][2] = c
    elif kind:
        ranges.append([kind, c, c])
line = ""
for kind, first, last in ranges:
    item = f"{kind}(0x{first:x}, 0x{last:x})"
    if line and len(line) + 1 + len(item) > 120:
        print(line)
        line = ""
    line += " " * bool(line) + item
print(line)

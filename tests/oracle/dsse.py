"""Our envelopes as securesystemslib and in-toto-attestation see them, and one that they made as `repro verify` sees it.

usage: dsse.py REPRO SCRATCH      SCRATCH: an existing directory
"""
import hashlib
import json
import os
import subprocess
import sys

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key
from in_toto_attestation.v1.statement import Statement
from google.protobuf.json_format import Parse
from in_toto_attestation.v1 import statement_pb2
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import CryptoSigner, SSlibKey

repro, scratch = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
bundle, theirs = os.path.join(scratch, "a.repro.tar.zst"), os.path.join(scratch, "b.repro.tar.zst")


def fail(why):
    sys.exit(f"dsse: {why}")


def run(*command, **more):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, **more).stdout


def fingerprint(key):
    return "SHA256:" + hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def accepted(envelope, key):
    try:
        envelope.verify([SSlibKey.from_crypto(key, keyid=fingerprint(key))], 1)
    except VerificationError:
        return False
    return True


def member(name):
    return run(repro, "inspect", bundle, name)


# ours, checked by them
environment = dict(os.environ, HOME=scratch, XDG_CONFIG_HOME=os.path.join(scratch, "config"), XDG_STATE_HOME=os.path.join(scratch, "state"))
settings = [word for key in ("measure.warmup_steps=1", "measure.repeats=1", "train.accumulation_steps=1") for word in ("--set", key)]
run(repro, "run", "bert_tiny_fp32", "--threads", "1", "--steps", "1", *settings, "-o", bundle, env=environment, stderr=subprocess.DEVNULL)
text = member("statement.dsse.json")
author = load_pem_public_key(member("key.pem"))
if not accepted(Envelope.from_dict(json.loads(text)), author):
    fail("securesystemslib does not accept our envelope")
for at in range(0, len(Envelope.from_dict(json.loads(text)).payload), 97):
    envelope = Envelope.from_dict(json.loads(text))
    envelope.payload = envelope.payload[:at] + bytes([envelope.payload[at] ^ 1]) + envelope.payload[at + 1:]
    if accepted(envelope, author):
        fail(f"securesystemslib accepts a payload with byte {at} changed")
payload = Envelope.from_dict(json.loads(text)).payload
statement = Statement.copy_from_pb(Parse(payload, statement_pb2.Statement()))
statement.validate()
for subject in json.loads(payload)["subject"]:
    if hashlib.sha256(member(subject["name"])).hexdigest() != subject["digest"]["sha256"]:
        fail(f"the digest of {subject['name']} is another one")

# theirs, checked by us: a counter-signature that securesystemslib signed
private = Ed25519PrivateKey.generate()
key = private.public_key()
word = {"_type": "https://in-toto.io/Statement/v1",
        "predicate": {"at": "2026-11-21T06:27:54Z", "note": "signed by securesystemslib", "program": "securesystemslib", "role": "reviewer"},
        "predicateType": "urn:repro:signature:1",
        "subject": [{"digest": {"sha256": hashlib.sha256(text).hexdigest()}, "name": "statement.dsse.json"}]}


def spelled(document):
    return (json.dumps(document, indent=2, sort_keys=True) + "\n").encode()


envelope = Envelope(spelled(word), "application/vnd.in-toto+json", {})
envelope.sign(CryptoSigner(private, SSlibKey.from_crypto(key, keyid=fingerprint(key))))
members = [("signatures/0.dsse.json", spelled(envelope.to_dict())),
           ("signatures/0.pem", key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))]


def header(like, name, size):
    """A ustar header like that one: name at 0, size at 124, checksum at 148."""
    h = name.encode().ljust(100, b"\0") + like[100:124] + b"%011o\0" % size + like[136:148] + b" " * 8 + like[156:]
    return h[:148] + b"%06o\0 " % sum(h) + h[156:]


def write(changed):
    tar = run("zstd", "-dc", bundle)
    with open(os.path.join(scratch, "b.tar"), "wb") as out:
        out.write(tar[:-1024])
        for name, data in changed:
            out.write(header(tar[:512], name, len(data)) + data + bytes(-len(data) % 512))
        out.write(bytes(1024))
    run("zstd", "-q", "-f", "--check", os.path.join(scratch, "b.tar"), "-o", theirs)


write(members)
verdict = json.loads(run(repro, "verify", "--json", theirs, env=environment))
(one,) = verdict["countersignatures"]
if not one["valid"] or one["fingerprint"] != fingerprint(key) or one["role"] != "reviewer":
    fail(f"repro does not accept their envelope: {one}")
broken = envelope.to_dict()
broken["signatures"][0]["sig"] = "A" + broken["signatures"][0]["sig"][1:] if broken["signatures"][0]["sig"][0] != "A" else "B" + broken["signatures"][0]["sig"][1:]
write([(members[0][0], spelled(broken)), members[1]])
status = subprocess.run([repro, "verify", theirs], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode
if status != 6:
    fail(f"a changed signature ends with status {status}, expected 6")
print("dsse: securesystemslib and in-toto-attestation agree")

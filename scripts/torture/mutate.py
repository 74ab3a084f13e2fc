"""Damage to files: flipped bits, cuts, inserted, zeroed and repeated blocks; and checksums repaired afterwards."""

import gzip
import io
import subprocess
import tarfile

MASK = (1 << 64) - 1


def damage(random, data):
    """A damaged copy, and the kind of damage."""
    bytes_ = bytearray(data)
    kind = random.choice(["flipped bits", "cut", "inserted block", "zeroed block", "repeated block", "extreme bytes", "zeroed tail"])
    at = random.randrange(len(bytes_) + 1)
    # Half of the damage hits the start, where headers are.
    if random.random() < 0.5:
        at = random.randrange(min(len(bytes_), 300) + 1)
    size = random.choice([1, 2, 8, 64, 1000])
    if kind == "flipped bits" and bytes_:
        for _ in range(random.choice([1, 1, 1, 5, 50])):
            place = min(at, len(bytes_) - 1) if random.random() < 0.5 else random.randrange(len(bytes_))
            bytes_[place] ^= 1 << random.randrange(8)
    elif kind == "cut":
        del bytes_[at:]
    elif kind == "inserted block":
        bytes_[at:at] = random.randbytes(size)
    elif kind == "zeroed block":
        bytes_[at:at + size] = bytes(len(bytes_[at:at + size]))
    elif kind == "repeated block":
        bytes_[at:at] = bytes_[at:at + size]
    elif kind == "extreme bytes":
        bytes_[at:at + min(size, 8)] = random.choice([b"\xff", b"\x7f", b"\x80", b"9"]) * min(size, 8)
    elif kind == "zeroed tail":
        bytes_[at:] = bytes(len(bytes_) - at)
    return bytes(bytes_), kind


def checksum(data):
    """The 64-bit checksum of `tandem_util::checksum`."""
    value = len(data)
    for at in range(0, len(data), 8):
        word = int.from_bytes(data[at:at + 8], "little")
        value = ((value ^ word) * 0x9E37_79B9_7F4A_7C15) & MASK
        value = (value << 29 | value >> 35) & MASK
    return value


def damage_inside(random, name, data):
    """Damage that the checksums of the format do not reveal, so that the parser behind them is reached; None if the
    format has none."""
    if name.endswith((".tnn", ".ttn")):
        body, kind = damage(random, data[:-8])
        return body + checksum(body).to_bytes(8, "little"), kind
    if name.endswith(".checkpoint"):
        return with_checkpoint_checksum(*damage(random, data))
    if name.endswith(".gz"):
        body, kind = damage(random, gzip.decompress(data))
        return gzip.compress(body, 1), kind
    if name.endswith(".zst"):
        body = subprocess.run(["zstd", "-dcq"], input=data, capture_output=True, check=True).stdout
        body, kind = damage(random, body)
        return subprocess.run(["zstd", "-cq"], input=body, capture_output=True, check=True).stdout, kind
    if name.endswith(".tar"):
        return damage_member(random, data)
    return None


def with_checkpoint_checksum(data, kind):
    entry = b'"checksum":"'
    at = data.find(entry)
    if at < 0:
        return None
    digits = at + len(entry)
    zeros = data[:digits] + b"0" * 16 + data[digits + 16:]
    return zeros[:digits] + f"{checksum(zeros):016x}".encode() + zeros[digits + 16:], kind


def damage_member(random, data):
    """Damages one member of a tar archive, within its gzip compression if it has one."""
    out, kind = io.BytesIO(), ""
    with tarfile.open(fileobj=io.BytesIO(data)) as source, tarfile.open(fileobj=out, mode="w") as target:
        members = [member for member in source.getmembers() if member.isfile()]
        chosen = random.choice(members)
        for member in members:
            body = source.extractfile(member).read()
            if member is chosen:
                packed = body[:2] == b"\x1f\x8b"
                body, kind = damage(random, gzip.decompress(body) if packed else body)
                body = gzip.compress(body, 1) if packed else body
                member.size = len(body)
            target.addfile(member, io.BytesIO(body))
    return out.getvalue(), kind

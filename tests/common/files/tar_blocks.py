"""Tar files byte for byte, as no library writes them."""

from __future__ import annotations

END = bytes(1024)


def tar_block(
    name: bytes, kind: bytes = b"0", size: int | bytes = 0, *, mode: bytes = b"0000644\0"
) -> bytes:
    """A header of one block, with a good checksum."""
    digits = size if isinstance(size, bytes) else b"%011o\0" % size
    fields = name.ljust(100, b"\0") + mode + b"0000000\0" * 2 + digits + b"00000000000\0"
    rest = kind + bytes(100) + b"ustar\x0000"
    block = (fields + b" " * 8 + rest).ljust(512, b"\0")
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def tar_entry(name: bytes, content: bytes = b"", kind: bytes = b"0") -> bytes:
    """A header and its content, padded."""
    return tar_block(name, kind, len(content)) + padded(content)


def pax_header(*records: tuple[bytes, bytes], kind: bytes = b"x") -> bytes:
    """An extended header of POSIX."""
    return tar_entry(b"pax", b"".join(pax_record(*record) for record in records), kind)


def pax_record(keyword: bytes, value: bytes) -> bytes:
    """`LENGTH KEYWORD=VALUE`, which counts itself."""
    rest = b" " + keyword + b"=" + value + b"\n"
    length = len(rest)
    while len(b"%d" % length) + len(rest) != length:
        length += 1
    return b"%d" % length + rest


def padded(content: bytes) -> bytes:
    """The content as whole blocks."""
    return content + bytes(-len(content) % 512)

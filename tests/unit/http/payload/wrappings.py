"""Payloads in the wrappings of SDKs."""

import gzip
import zlib

from lzstring import LZString


def gzipped(data: bytes) -> bytes:
    """Return the same bytes on every call: they are part of the test ids."""
    return gzip.compress(data, mtime=0)


def lz64(text: str) -> bytes:
    """Compress like lz-string in JavaScript, whose characters are UTF-16 units."""
    raw = text.encode("utf-16-le", "surrogatepass")
    units = "".join(map(chr, memoryview(raw).cast("H")))
    packed: str = LZString.compressToBase64(units)
    return packed.encode()


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def multipart(**fields: bytes) -> bytes:
    parts = [
        b'--b\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (name.encode(), value)
        for name, value in fields.items()
    ]
    return b"".join(parts) + b"--b--\r\n"

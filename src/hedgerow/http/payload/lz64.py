"""LZ-string in base64, the compression of older browser SDKs."""

from binascii import a2b_base64
from contextlib import suppress
from struct import Struct

from hedgerow.errors import TooLarge
from hedgerow.http.payload.errors import MalformedData, unpacked_too_large_error
from hedgerow.http.payload.forms import unquote

# Python decodes it one symbol at a time, so its limits are lower.
MAX_LZ64_BYTES = 192 * 1024
MAX_LZ64_UNPACKED = 1024 * 1024
# The beginning in which a key is searched.
HEAD_DIGITS = 8 * 1024
HEAD_UNPACKED = 32 * 1024

BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_MIRRORED_BITS = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))

_four_bytes = Struct("<I").unpack_from


def unpack_lz64(text: bytes, limit: int) -> bytes:
    """Decompress LZ-string in base64. Its symbols are UTF-16 units; a lone surrogate becomes
    U+FFFD."""
    if len(text) > MAX_LZ64_BYTES:
        raise TooLarge(f"An lz64 body may have at most {MAX_LZ64_BYTES} bytes.")
    if b"%" in text:
        text = unquote(text)
    digits = text.strip(b"\r\n\t").rstrip(b"=").replace(b" ", b"+")
    if not digits or digits.translate(None, BASE64):
        raise MalformedData("it is not lz64, although the request says so.")
    units = _decompress(_decode_digits(digits), min(limit, MAX_LZ64_UNPACKED))
    return _encode_units(units)


def unpack_lz64_head(text: bytes) -> bytes:
    """Decompress the beginning of lz64 data; empty if it is damaged."""
    text = text[:HEAD_DIGITS]
    if b"%" in text:
        text = unquote(text)
    digits = text.translate(None, b"\r\n\t").replace(b" ", b"+").rstrip(b"=")
    if digits.translate(None, BASE64):
        return b""
    pieces: list[str] = []
    with suppress(MalformedData, TooLarge):
        _decompress(_decode_digits(digits), HEAD_UNPACKED, pieces)
    return _encode_units("".join(pieces))


def _decode_digits(digits: bytes) -> bytes:
    # Missing digits are zeros: unlike base64, a single digit may precede the padding.
    return a2b_base64(digits + b"A" * (-len(digits) % 4))


def _encode_units(units: str) -> bytes:
    return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def _decompress(packed: bytes, limit: int, pieces: list[str] | None = None) -> str:
    """LZ-string's decoder, with a limit. It appends to `pieces` what it has decoded.

    A code of n bits is stored lowest bit first. With the bits of every byte mirrored, it is n bits
    in the middle of a little-endian number. Codes 0 and 1 introduce a new character of 8 or 16
    bits, 2 is the end; the others index the dictionary, which grows by one entry per code."""
    bits = packed.translate(_MIRRORED_BITS) + bytes(16)
    end, position, width = len(packed) * 8, 0, 2
    entries = ["", "", ""]
    last = ""
    pieces = [] if pieces is None else pieces
    remaining = limit
    while True:
        (window,) = _four_bytes(bits, position >> 3)
        code = window >> (position & 7) & ((1 << width) - 1)
        position += width
        if code == 2:
            return "".join(pieces)
        if code < 2:
            size = 16 if code else 8
            (window,) = _four_bytes(bits, position >> 3)
            entries.append(chr(window >> (position & 7) & ((1 << size) - 1)))
            position += size
            code = len(entries) - 1
        if position > end:
            raise MalformedData("the lz64 data was cut short.")
        if code < len(entries):
            entry = entries[code]
        elif code == len(entries) and last:
            entry = last + last[0]
        else:
            raise MalformedData("the lz64 data is damaged.")
        remaining -= len(entry)
        if remaining < 0:
            raise unpacked_too_large_error(limit)
        pieces.append(entry)
        if last:
            entries.append(last + entry[0])
        last = entry
        width = len(entries).bit_length()

"""Masks the secrets of a record in texts that others wrote: responses, errors, reasons.

Services echo what they receive, so a secret is also recognized escaped, encoded, in other case, as
a part of a URL or header, and cut at the end of a text. Pure.
"""

import base64
import binascii
import contextlib
import re
import traceback
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from hedgerow.pipelines.config import MASK
from hedgerow.pipelines.escapes import DecodedText, decode_escapes
from hedgerow.plugin.component import Component

# Shorter texts occur in others by chance, so they cannot be masked.
MIN_SECRET_LENGTH = 4
# The same for parts of a secret, and for the beginning of a secret at the end of a text.
MIN_PART_LENGTH = 8
MIN_CUT_LENGTH = 6
# An escape of a character is at most this long: `\\u0041`, `&#x0041;`.
ESCAPE_LENGTH = 8
# Makes texts comparable that differ in `+` for a space, or in the alphabet of base64.
_COMPARABLE = str.maketrans("+-_", "  /")
_DELIMITERS = re.compile(r"""[\s=;,:"']+""")


class SecretMask:
    """Replaces secrets by the mask. `margin` is the length of the longest text that it replaces."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        texts = {part for text in secrets for part in _split_secret(text)}
        self._texts = texts
        forms = {_decode(form).text for text in texts for form in (text, *_encode(text))}
        forms = {form for form in forms if len(form) >= MIN_SECRET_LENGTH}
        # Longest first: the beginning of a form may be the beginning of another.
        self._forms = sorted(forms, key=lambda form: (-len(form), form))
        self.margin = ESCAPE_LENGTH * len(self._forms[0]) if self._forms else 0

    def apply(self, text: str) -> str:
        result: list[str] = []
        last = 0
        for start, end in sorted(self._find(text)):
            if start >= last:
                result += (text[last:start], MASK)
            last = max(last, end)
        return "".join((*result, text[last:]))

    def _find(self, text: str) -> Iterator[tuple[int, int]]:
        # Also as it is: what precedes a secret may look like an escape together with it.
        for secret in self._texts:
            yield from _find_all(secret, text)
        decoded = _decode(text)
        for form in self._forms:
            for span in _find_all(form, decoded.text):
                yield decoded.locate(*span)
        if cut := self._measure_cut_secret(decoded.text):
            yield decoded.locate(len(decoded.text) - cut, len(decoded.text))

    def cut(self, text: str, length: int) -> str:
        """Mask a text and cut it. Only as much is masked as is shown."""
        return self.apply(text[: length + self.margin])[:length]

    def apply_to_error(self, error: BaseException) -> BaseException:
        """Return the error for a log, or a masked text of it if it contains a secret."""
        text = "".join(traceback.format_exception(error))
        masked = self.apply(text)
        return error if masked == text else RuntimeError(masked)

    def _measure_cut_secret(self, text: str) -> int:
        """Return the length of the beginning of a secret at the end of a text that was cut."""
        for form in self._forms:
            for length in range(min(len(form) - 1, len(text)), MIN_CUT_LENGTH - 1, -1):
                if text.endswith(form[:length]):
                    return length
        return 0


def build_mask(component: Component | None, settings: Mapping[str, Any]) -> SecretMask:
    """Return the mask for the secrets in decrypted settings."""
    keys = component.secret_keys if component else ()
    return SecretMask(text for key in keys for text in iterate_texts(settings.get(key)))


def iterate_texts(value: Any) -> Iterator[str]:
    """Yield every non-empty text or number inside a value."""
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from iterate_texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from iterate_texts(inner)
    elif isinstance(value, str | int | float) and not isinstance(value, bool) and value != "":
        yield str(value)


def _split_secret(text: str) -> Iterator[str]:
    """Yield the secret and the parts of it that are secrets themselves: those of a header with a
    scheme, of Basic credentials and of a URL."""
    passwords = (text, *_find_passwords(text))
    yield from (each for each in passwords if len(each) >= MIN_SECRET_LENGTH)
    parts = _split_url(text) if "://" in text else _DELIMITERS.split(text)
    yield from (each for each in parts if len(each) >= MIN_PART_LENGTH)


def _find_passwords(text: str) -> Iterator[str]:
    scheme, _, credentials = text.partition(" ")
    if credentials and " " not in credentials:
        yield credentials
    if scheme.lower() == "basic":
        with contextlib.suppress(binascii.Error, ValueError):
            decoded = base64.b64decode(credentials, validate=True).decode()
            yield decoded
            yield decoded.partition(":")[2]
    with contextlib.suppress(ValueError):
        if password := urlsplit(text).password:
            yield password
            yield unquote(password)


def _split_url(text: str) -> Iterator[str]:
    try:
        url = urlsplit(text)
    except ValueError:
        return
    if url.netloc:
        path = url.path.rstrip("/")
        yield path + (f"?{url.query}" if url.query else "")
        yield path
        yield path.rpartition("/")[2]
        yield from (value for _, value in parse_qsl(url.query))


def _find_all(part: str, text: str) -> Iterator[tuple[int, int]]:
    start = text.find(part)
    while start >= 0:
        yield start, start + len(part)
        start = text.find(part, start + len(part))


def _decode(text: str) -> DecodedText:
    """Return a text in the form in which texts are compared: without escapes, in lower case."""
    decoded = decode_escapes(text)
    lower = decoded.text.lower()
    if len(lower) != len(decoded.text):  # A few letters become two: İ.
        lower = "".join(each.lower()[:1] for each in decoded.text)
    return DecodedText(lower.translate(_COMPARABLE), decoded.starts, decoded.ends)


def _encode(text: str) -> Iterator[str]:
    """Yield the secret in hexadecimal digits and in base64: the characters that depend on it
    alone, wherever it begins in the encoded bytes, as in `user:password`."""
    data = text.encode("utf-8", "replace")
    yield data.hex()
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + data).decode()
        # Characters that also hold bits of the data before and after it.
        start = (before * 8 + 5) // 6
        end = (before + len(data)) * 8 // 6
        if end - start >= MIN_CUT_LENGTH:
            yield encoded[start:end]

"""Masks the secrets of a record in texts that others wrote: responses, errors, reasons.

Services echo what they receive, so a secret is also recognized escaped, encoded, as a part of a URL
or header, and cut at the end of a text. Pure.
"""

import base64
import binascii
import contextlib
import html
import json
import re
import traceback
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

from hedgerow.pipelines.config import MASK
from hedgerow.plugin.component import Component

# Shorter texts occur in others by chance, so they cannot be masked.
MIN_SECRET_LENGTH = 4
# The same for parts of a secret, and for the beginning of a secret at the end of a text.
MIN_PART_LENGTH = 8
MIN_CUT_LENGTH = 6


class SecretMask:
    """Replaces secrets by the mask. `margin` is the length of the longest text that it replaces."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        texts = {part for text in secrets for part in _split_secret(text)}
        forms = {form for text in texts for form in _encode_forms(text)}
        # Longest first: a form may contain another.
        self._forms = sorted(forms, key=lambda form: (-len(form), form))
        # The digits of an escape such as %2F have either case.
        escaped = [re.escape(form) for form in self._forms if "%" in form]
        self._escaped = re.compile("|".join(escaped), re.IGNORECASE) if escaped else None
        self.margin = len(self._forms[0]) if self._forms else 0

    def apply(self, text: str) -> str:
        for form in self._forms:
            text = text.replace(form, MASK)
        if self._escaped is not None:
            text = self._escaped.sub(MASK, text)
        return self._mask_cut_secret(text)

    def cut(self, text: str, length: int) -> str:
        """Mask a text and cut it. Only as much is masked as is shown."""
        return self.apply(text[: length + self.margin])[:length]

    def apply_to_error(self, error: BaseException) -> BaseException:
        """Return the error for a log, or a masked text of it if it contains a secret."""
        text = "".join(traceback.format_exception(error))
        masked = self.apply(text)
        return error if masked == text else RuntimeError(masked)

    def _mask_cut_secret(self, text: str) -> str:
        """Mask the beginning of a secret at the end of a text that was cut."""
        for form in self._forms:
            for length in range(min(len(form) - 1, len(text)), MIN_CUT_LENGTH - 1, -1):
                if text.endswith(form[:length]):
                    return text[:-length] + MASK
        return text


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
    parts = (*text.split()[1:], *_split_url(text))
    yield from (each for each in parts if len(each) >= MIN_PART_LENGTH)


def _find_passwords(text: str) -> Iterator[str]:
    scheme, _, encoded = text.partition(" ")
    if scheme.lower() == "basic":
        with contextlib.suppress(binascii.Error, ValueError):
            decoded = base64.b64decode(encoded, validate=True).decode()
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


def _encode_forms(text: str) -> Iterator[str]:
    """Yield the secret as it appears in JSON, HTML, URLs, Python texts and base64."""
    yield text
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]
    yield json.dumps(text)[1:-1].replace("/", "\\/")
    yield repr(text)[1:-1]
    yield html.escape(text)
    yield html.escape(text, quote=False)
    yield from (quote(text, safe=""), quote(text), quote_plus(text))
    yield from _encode_base64(text.encode("utf-8", "replace"))


def _encode_base64(data: bytes) -> Iterator[str]:
    """Yield the characters of base64 that depend on this data alone, wherever it begins in the
    encoded bytes, as in `user:password`."""
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + data).decode()
        # Characters that also hold bits of the data before and after it.
        start = (before * 8 + 5) // 6
        end = (before + len(data)) * 8 // 6
        if end - start >= MIN_CUT_LENGTH:
            yield encoded[start:end]
            yield encoded[start:end].replace("+", "-").replace("/", "_")

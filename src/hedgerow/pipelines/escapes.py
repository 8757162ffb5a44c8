"""Decode the escapes of JSON, URLs, HTML and Python in a text of unknown origin, so that a known
text can be found in it however it was escaped."""

import html
import re
from dataclasses import dataclass
from urllib.parse import unquote

# A run of escapes counts as one: surrogates and the bytes of a character belong together. Text that
# was escaped twice has more backslashes, `%25` or `&amp;`. The last alternative is an escape that
# was cut at the end of the text.
_ESCAPE = re.compile(
    r"""
    (?P<url> (?: % (?:25)* [0-9A-Fa-f]{2} )+ )
  | (?P<unicode> (?: \\+ u [0-9A-Fa-f]{4} )+ )
  | \\+ x (?P<hex> [0-9A-Fa-f]{2} )
  | & (?:amp;)* (?P<entity> \#[0-9]{1,7} | \#[xX][0-9A-Fa-f]{1,6} | [A-Za-z]{2,8} ) ;
  | \\+ (?P<control> [bfnrt] )
  | (?: % (?:25)* [0-9A-Fa-f]? | \\+ (?: u[0-9A-Fa-f]{0,3} | x[0-9A-Fa-f]? )? | &[#\w]{0,7} ) \Z
  | \\+
    """,
    re.VERBOSE,
)
_CONTROLS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


@dataclass(frozen=True, slots=True)
class DecodedText:
    """A text without escapes. `starts` and `ends` are the positions of each character in the
    original; they are empty if the text has no escapes."""

    text: str
    starts: list[int]
    ends: list[int]

    def locate(self, start: int, end: int) -> tuple[int, int]:
        """Return where a part of the text is in the original."""
        if not self.starts:
            return start, end
        return self.starts[start], self.ends[end - 1]


def decode_escapes(text: str) -> DecodedText:
    if not any(sign in text for sign in "%\\&"):
        return DecodedText(text, [], [])
    parts: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    last = 0
    for match in _ESCAPE.finditer(text):
        start, end = match.span()
        decoded = _decode(match)
        parts += (text[last:start], decoded)
        starts += (*range(last, start), *[start] * len(decoded))
        ends += (*range(last + 1, start + 1), *[end] * len(decoded))
        last = end
    if not last:
        return DecodedText(text, [], [])
    starts += range(last, len(text))
    ends += range(last + 1, len(text) + 1)
    return DecodedText("".join((*parts, text[last:])), starts, ends)


def _decode(match: re.Match[str]) -> str:
    match match.lastgroup:
        case "url":
            return unquote(re.sub("%(?:25)+(?=[0-9A-Fa-f]{2})", "%", match[0]), errors="replace")
        case "unicode":
            units = bytes.fromhex(re.sub(r"\\+u", "", match[0]))
            return units.decode("utf-16-be", "replace")
        case "hex":
            return chr(int(match["hex"], 16))
        case "entity":
            return html.unescape(f"&{match['entity']};")
        case "control":
            return _CONTROLS[match["control"]]
        case _:
            return ""

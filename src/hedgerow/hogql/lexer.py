"""A text as tokens, in one pass from the left.

An f-string is told as pieces of text with ordinary tokens between them, as deep as it nests.
"""

import re
from enum import Enum, auto
from typing import NamedTuple

from hedgerow.hogql.errors import HogQLError, shown

_PATTERN = re.compile(
    r"""\s* (?:
    (?P<skip>    --[^\n]* | //[^\n]* | \#[^\n]* | /\*.*?\*/ )
  | (?P<number>  0[xX][0-9a-fA-F]+ | 0[bB][01]+
               | (?: [0-9]+ (?:\.[0-9]*)? | \.[0-9]+ ) (?:[eE][+-]?[0-9]+)? )
  | (?P<template> [fF]' )
  | (?P<word>    [A-Za-z_$][A-Za-z0-9_$]* )
  | (?P<string>  ' (?: [^'\\] | \\. | '' )* ' )
  | (?P<quoted>  ` (?: [^`\\] | \\. | `` )* ` | " (?: [^"\\] | \\. | "" )* " )
  | (?P<op>      !~\* | =~\* | <=> | ~\* | :: | \?\? | \?\. | -> | \|\| | == | != | <> | <= | >=
               | =~ | !~ | [-+*/%=<>~?:;,.()\[\]{}] )
    )""",
    re.VERBOSE | re.DOTALL,
)
_TEMPLATE_TEXT = re.compile(r"(?: [^'\\{] | \\. | '' )*", re.VERBOSE | re.DOTALL)
_DIGITS = re.compile("[0-9]+")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
# What a backslash may stand before. A zero byte is left out of the text, and \x is no escape.
_ESCAPES = {
    "b": "\b", "f": "\f", "r": "\r", "n": "\n", "t": "\t", "a": "\a", "v": "\v",
    "0": "", "\\": "\\", "x": "\\x",
}  # fmt: skip
# After one of these a dot leads to a part of the thing, never to a decimal fraction.
_CLOSERS = frozenset({")", "]", "}"})


class Kind(Enum):
    WORD = auto()
    QUOTED = auto()
    NUMBER = auto()
    STRING = auto()
    OP = auto()
    TEMPLATE_START = auto()
    TEMPLATE_TEXT = auto()
    TEMPLATE_END = auto()
    END = auto()


class Token(NamedTuple):
    """`text` is as written, except that quotes and escapes of names and strings are gone. `word`
    is the lower-case form of a bare word or an operator, and empty for everything else."""

    kind: Kind
    text: str
    word: str
    start: int
    end: int


_KINDS = {"word": Kind.WORD, "number": Kind.NUMBER, "string": Kind.STRING, "quoted": Kind.QUOTED}


def tokens(text: str) -> list[Token]:
    """All tokens of the text, with one END after the last."""
    found: list[Token] = []
    # Each open brace: True when it stands in an f-string.
    braces: list[bool] = []
    position, last = 0, len(text.rstrip())
    while position < last:
        match = _PATTERN.match(text, position)
        if match is None:
            raise _unreadable(text, position)
        assert match.lastgroup is not None
        start, position = match.span(match.lastgroup)
        if match.lastgroup == "op":
            position = _operator(text, start, position, found, braces)
        elif match.lastgroup == "template":
            found.append(Token(Kind.TEMPLATE_START, "", "", start, position))
            position = _template_text(text, position, found, braces)
        elif match.lastgroup == "number" and _follows_a_dot(found, text[start]):
            position = _part_number(text, start, found)
        elif match.lastgroup != "skip":
            piece = text[start:position]
            found.append(_plain(_KINDS[match.lastgroup], piece, start, position))
    found.append(Token(Kind.END, "", "", len(text), len(text)))
    return found


def _plain(kind: Kind, piece: str, start: int, end: int) -> Token:
    if kind in (Kind.STRING, Kind.QUOTED):
        return Token(kind, unescaped(piece, start), "", start, end)
    return Token(kind, piece, piece.lower() if kind is Kind.WORD else "", start, end)


def _operator(text: str, start: int, end: int, found: list[Token], braces: list[bool]) -> int:
    piece = text[start:end]
    if piece == "/" and text.startswith("*", end):
        raise HogQLError("A comment does not end", start=start)
    found.append(Token(Kind.OP, piece, piece, start, end))
    if piece == "{":
        braces.append(False)
    elif piece == "}" and braces and braces.pop():
        return _template_text(text, end, found, braces)
    return end


def _follows_a_dot(found: list[Token], character: str) -> bool:
    """`a.1.2`: parts of a tuple. The pattern took a fraction for what comes after `a`."""
    if not found:
        return False
    last = found[-1]
    if last.word in (".", "?."):
        return True
    return character == "." and (
        last.kind in (Kind.WORD, Kind.QUOTED)
        or last.word in _CLOSERS
        or (last.kind is Kind.NUMBER and len(found) > 1 and found[-2].word in (".", "?."))
    )


def _part_number(text: str, start: int, found: list[Token]) -> int:
    position = start
    if text[position] == ".":
        found.append(Token(Kind.OP, ".", ".", position, position + 1))
        position += 1
    digits = _DIGITS.match(text, position)
    assert digits is not None
    found.append(Token(Kind.NUMBER, digits.group(), "", position, digits.end()))
    return digits.end()


def _template_text(text: str, start: int, found: list[Token], braces: list[bool]) -> int:
    """Reads on in an f-string to its next opening brace or to its end."""
    match = _TEMPLATE_TEXT.match(text, start)
    assert match is not None
    position = match.end()
    if position > start:
        piece = unescaped(f"'{match.group()}'", start, more={"{": "{"})
        found.append(Token(Kind.TEMPLATE_TEXT, piece, "", start, position))
    if position >= len(text):
        raise HogQLError("A text in quotes does not end", start=start)
    if text[position] == "{":
        braces.append(True)
        found.append(Token(Kind.OP, "{", "{", position, position + 1))
    else:
        found.append(Token(Kind.TEMPLATE_END, "", "", position, position + 1))
    return position + 1


def unescaped(quoted: str, start: int, more: dict[str, str] | None = None) -> str:
    """What stands between the quotes."""
    quote, inner = quoted[0], quoted[1:-1]
    inner = inner.replace(quote * 2, quote) if quote * 2 in inner else inner
    if "\\" not in inner:
        return inner
    known = _ESCAPES | (more or {}) | ({} if quote == "`" else {quote: quote})

    def meant(match: re.Match[str]) -> str:
        letter = match.group(1)
        if letter not in known:
            raise HogQLError(
                f"'\\{letter}' is no escape", start=start, hint="Write '\\\\' for a backslash."
            )
        return known[letter]

    return _ESCAPE.sub(meant, inner)


def _unreadable(text: str, position: int) -> HogQLError:
    position += len(text[position:]) - len(text[position:].lstrip())
    character = text[position]
    if character in "'`\"":
        return HogQLError("A text in quotes does not end", start=position)
    hint = "Straight quotes are meant." if character in "‘’“”´" else ""
    named = shown(character) if character.isprintable() else f"U+{ord(character):04X}"
    return HogQLError(f"Unexpected character {named}", start=position, hint=hint)

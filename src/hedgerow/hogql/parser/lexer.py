"""The lexer: query text to tokens, in one pass.

An f-string becomes its text parts with ordinary tokens between them, at any nesting depth.
"""

import re
from enum import Enum, auto
from typing import NamedTuple

from hedgerow.hogql.errors import HogQLError, quote

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
# Escape sequences. \0 is dropped from the text, and \x is not an escape.
_ESCAPES = {
    "b": "\b", "f": "\f", "r": "\r", "n": "\n", "t": "\t", "a": "\a", "v": "\v",
    "0": "", "\\": "\\", "x": "\\x",
}  # fmt: skip
# A dot after one of these is a member access, never a decimal fraction.
_CLOSERS = frozenset({")", "]", "}"})


class TokenKind(Enum):
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
    """`text` is the source text, without the quotes and escapes of names and strings. `word` is the
    lower-case form of a bare word or an operator, and empty for other tokens."""

    kind: TokenKind
    text: str
    word: str
    start: int
    end: int


_KINDS = {
    "word": TokenKind.WORD,
    "number": TokenKind.NUMBER,
    "string": TokenKind.STRING,
    "quoted": TokenKind.QUOTED,
}


def tokenize(text: str) -> list[Token]:
    """Return all tokens of the text, with one END token at the end."""
    found: list[Token] = []
    # The open braces: True for one inside an f-string.
    braces: list[bool] = []
    position, last = 0, len(text.rstrip())
    while position < last:
        match = _PATTERN.match(text, position)
        if match is None:
            raise _character_error(text, position)
        assert match.lastgroup is not None
        start, position = match.span(match.lastgroup)
        if match.lastgroup == "op":
            position = _read_operator(text, start, position, found, braces)
        elif match.lastgroup == "template":
            found.append(Token(TokenKind.TEMPLATE_START, "", "", start, position))
            position = _read_template_text(text, position, found, braces)
        elif match.lastgroup == "number" and _is_member_access(found, text[start]):
            position = _read_index(text, start, found)
        elif match.lastgroup != "skip":
            piece = text[start:position]
            found.append(_make_token(_KINDS[match.lastgroup], piece, start, position))
    found.append(Token(TokenKind.END, "", "", len(text), len(text)))
    return found


def _make_token(kind: TokenKind, piece: str, start: int, end: int) -> Token:
    if kind in (TokenKind.STRING, TokenKind.QUOTED):
        return Token(kind, unescape(piece, start), "", start, end)
    return Token(kind, piece, piece.lower() if kind is TokenKind.WORD else "", start, end)


def _read_operator(text: str, start: int, end: int, found: list[Token], braces: list[bool]) -> int:
    piece = text[start:end]
    if piece == "/" and text.startswith("*", end):
        raise HogQLError("Unterminated comment", start=start, hint="Close it with */.")
    found.append(Token(TokenKind.OP, piece, piece, start, end))
    if piece == "{":
        braces.append(False)
    elif piece == "}" and braces and braces.pop():
        return _read_template_text(text, end, found, braces)
    return end


def _is_member_access(found: list[Token], character: str) -> bool:
    """Return whether a number is an index, as in `a.1.2`. The pattern reads `.1` as a fraction."""
    if not found:
        return False
    last = found[-1]
    if last.word in (".", "?."):
        return True
    return character == "." and (
        last.kind in (TokenKind.WORD, TokenKind.QUOTED)
        or last.word in _CLOSERS
        or (last.kind is TokenKind.NUMBER and len(found) > 1 and found[-2].word in (".", "?."))
    )


def _read_index(text: str, start: int, found: list[Token]) -> int:
    position = start
    if text[position] == ".":
        found.append(Token(TokenKind.OP, ".", ".", position, position + 1))
        position += 1
    digits = _DIGITS.match(text, position)
    assert digits is not None
    found.append(Token(TokenKind.NUMBER, digits.group(), "", position, digits.end()))
    return digits.end()


def _read_template_text(text: str, start: int, found: list[Token], braces: list[bool]) -> int:
    """Read an f-string up to its next opening brace or its end."""
    match = _TEMPLATE_TEXT.match(text, start)
    assert match is not None
    position = match.end()
    if position > start:
        piece = unescape(f"'{match.group()}'", start, more={"{": "{"})
        found.append(Token(TokenKind.TEMPLATE_TEXT, piece, "", start, position))
    if position >= len(text):
        raise HogQLError("Unterminated string", start=start, hint="Add the closing quote.")
    if text[position] == "{":
        braces.append(True)
        found.append(Token(TokenKind.OP, "{", "{", position, position + 1))
    else:
        found.append(Token(TokenKind.TEMPLATE_END, "", "", position, position + 1))
    return position + 1


def unescape(quoted: str, start: int, more: dict[str, str] | None = None) -> str:
    """Return the text between the quotes."""
    quote, inner = quoted[0], quoted[1:-1]
    inner = inner.replace(quote * 2, quote) if quote * 2 in inner else inner
    if "\\" not in inner:
        return inner
    known = _ESCAPES | (more or {}) | ({} if quote == "`" else {quote: quote})

    def meant(match: re.Match[str]) -> str:
        letter = match.group(1)
        if letter not in known:
            raise HogQLError(
                f"'\\{letter}' is not an escape sequence",
                start=start,
                hint="Write '\\\\' for a backslash.",
            )
        return known[letter]

    return _ESCAPE.sub(meant, inner)


def _character_error(text: str, position: int) -> HogQLError:
    position += len(text[position:]) - len(text[position:].lstrip())
    character = text[position]
    if character in "'`\"":
        return HogQLError("Unterminated string", start=position, hint="Add the closing quote.")
    hint = "Use straight quotes." if character in "‘’“”´" else ""
    named = quote(character) if character.isprintable() else f"U+{ord(character):04X}"
    return HogQLError(f"Unexpected character {named}", start=position, hint=hint)

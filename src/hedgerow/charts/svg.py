"""An SVG document. All text goes through `clean_text` and is escaped, so that no name of an event
can add markup to a picture or break it."""

import unicodedata
from collections.abc import Sequence
from xml.sax.saxutils import escape

WIDTH = 800.0
MAX_HEIGHT = 1200.0
FONT = "Open Sans"
ELLIPSIS = "…"
# Advance widths of Open Sans SemiBold from the space to the tilde, in hundredths of the font size.
# The regular weight is a little narrower.
_WIDTHS = (
    26, 28, 44, 65, 58, 87, 75, 25, 32, 32, 55, 58, 27, 33, 28, 40, 58, 58, 58, 58, 58, 58, 58, 58,
    58, 58, 28, 28, 58, 58, 58, 46, 90, 67, 67, 64, 74, 56, 54, 73, 76, 31, 30, 64, 55, 93, 79, 79,
    62, 79, 64, 55, 57, 75, 63, 95, 63, 60, 58, 34, 40, 34, 54, 43, 60, 59, 63, 50, 63, 58, 37, 56,
    64, 28, 28, 58, 28, 96, 64, 62, 63, 63, 44, 49, 40, 64, 54, 82, 56, 54, 48, 39, 56, 38, 58,
)  # fmt: skip
_OTHER_WIDTH = 70
_WIDE_WIDTH = 105
# A longer text does not fit anyway.
_MAX_CHARS = 400
# Control characters, and formats such as the reversal of the direction of writing.
_UNDRAWABLE = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))


def clean_text(text: str) -> str:
    """Replace what cannot be drawn by spaces, and join spaces."""
    drawn = (
        " " if unicodedata.category(each) in _UNDRAWABLE else each for each in text[:_MAX_CHARS]
    )
    return " ".join("".join(drawn).split())


def measure(text: str, size: float) -> float:
    """Return the width of a text, rather too large than too small."""
    return sum(map(_measure_character, text)) * size / 100


def _measure_character(character: str) -> int:
    place = ord(character) - 32
    if 0 <= place < len(_WIDTHS):
        return _WIDTHS[place]
    return _WIDE_WIDTH if unicodedata.east_asian_width(character) in "WF" else _OTHER_WIDTH


def fit_text(text: str, size: float, width: float) -> str:
    """Cut a text to the width, with an ellipsis."""
    text = clean_text(text)
    if measure(text, size) <= width:
        return text
    left = width - measure(ELLIPSIS, size)
    kept: list[str] = []
    for each in text:
        left -= _measure_character(each) * size / 100
        if left < 0:
            break
        kept.append(each)
    return "".join(kept).rstrip() + ELLIPSIS


class Svg:
    """Elements in the order in which they are drawn. Coordinates are in pixels from the
    top left."""

    def __init__(self) -> None:
        self._elements: list[str] = []

    def rect(
        self, x: float, y: float, width: float, height: float, fill: str, *, radius: float = 0
    ) -> None:
        if width > 0 and height > 0:
            self._elements.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
                f' fill="{fill}" rx="{radius:g}"/>'
            )

    def line(self, start: tuple[float, float], end: tuple[float, float], color: str) -> None:
        self._elements.append(
            f'<line x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}"'
            f' stroke="{color}" stroke-width="1"/>'
        )

    def polyline(
        self, points: Sequence[tuple[float, float]], color: str, *, is_dashed: bool = False
    ) -> None:
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashes = ' stroke-dasharray="5 4" opacity="0.6"' if is_dashed else ""
        self._elements.append(
            f'<polyline points="{places}" fill="none" stroke="{color}" stroke-width="2"'
            f' stroke-linejoin="round" stroke-linecap="round"{dashes}/>'
        )

    def circle(self, center: tuple[float, float], radius: float, fill: str) -> None:
        self._elements.append(
            f'<circle cx="{center[0]:.1f}" cy="{center[1]:.1f}" r="{radius:g}" fill="{fill}"/>'
        )

    def text(  # noqa: PLR0913 - all named
        self,
        place: tuple[float, float],
        text: str,
        *,
        size: float,
        color: str,
        width: float = WIDTH,
        anchor: str = "start",
        is_bold: bool = False,
    ) -> None:
        """Draw a text, cut to the width. The place is on its base line."""
        fitted = escape(fit_text(text, size, width))
        weight = ' font-weight="600"' if is_bold else ""
        self._elements.append(
            f'<text x="{place[0]:.1f}" y="{place[1]:.1f}" font-size="{size:g}" fill="{color}"'
            f' text-anchor="{anchor}"{weight}>{fitted}</text>'
        )

    def add(self, other: "Svg") -> None:
        """Draw the elements of another document on top."""
        self._elements += other._elements

    def document(self, height: float) -> str:
        height = min(height, MAX_HEIGHT)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH:g}" height="{height:g}"'
            f' viewBox="0 0 {WIDTH:g} {height:g}" font-family="{FONT}, sans-serif">'
            f"{''.join(self._elements)}</svg>"
        )

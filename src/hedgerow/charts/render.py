"""Renders a chart as SVG text or as a PNG file, with fonts of a package, so that a picture is the
same on every machine.

Work whose cost a client decides: run it in a worker process.
"""

from ttf_opensans import OPENSANS_REGULAR, OPENSANS_SEMIBOLD

from hedgerow.charts.draw import draw_chart
from hedgerow.charts.model import Picture
from hedgerow.charts.svg import FONT
from hedgerow.lib.optional_packages import LazyPackage

resvg_py = LazyPackage("resvg_py")

# Sharp on screens with two pixels per point.
ZOOM = 2
FONT_FILES = [str(font.path) for font in (OPENSANS_REGULAR, OPENSANS_SEMIBOLD)]
# The letters of these fonts: Latin, Greek and Cyrillic, punctuation and the euro. They lack some
# rare ones in between.
_COVERED = ((0x20, 0x180), (0x370, 0x530), (0x1E00, 0x1F00), (0x2010, 0x2070))


def render_svg(chart: Picture) -> bytes:
    return draw_chart(chart).encode()


def render_png(chart: Picture) -> bytes:
    """Letters that the fonts lack, such as Chinese ones, come from the fonts of the system."""
    svg = draw_chart(chart)
    picture: bytes = resvg_py.svg_to_bytes(
        svg_string=svg,
        zoom=ZOOM,
        font_files=FONT_FILES,
        font_family=FONT,
        sans_serif_family=FONT,
        # Searching the fonts of a system takes time, and only such texts need them.
        skip_system_fonts=_is_covered(svg),
    )
    return picture


def _is_covered(text: str) -> bool:
    """Whether the fonts have all letters."""
    return all(
        each in "\n€−" or any(start <= ord(each) < end for start, end in _COVERED) for each in text
    )

"""Texts that SDKs show as HTML, made harmless before they are stored.

Current SDKs clean them as well. Older ones do not, and they run on pages of others.
"""

from typing import Any

import nh3

# The texts that some version of posthog-js writes into a page as HTML, wherever they stand: in a
# question, in the appearance or in a translation of either.
SHOWN_AS_HTML = frozenset(
    (
        "question",
        "description",
        "thankYouMessageHeader",
        "thankYouMessageDescription",
        "introScreenHeader",
        "introScreenDescription",
    )
)
TAGS = {
    *("a", "abbr", "b", "bdi", "bdo", "blockquote", "br", "center", "cite", "code", "del"),
    *("details", "dfn", "div", "em", "figcaption", "figure", "h1", "h2", "h3", "h4", "h5", "h6"),
    *("hr", "i", "img", "ins", "kbd", "li", "mark", "ol", "p", "pre", "q", "s", "samp", "small"),
    *("span", "strike", "strong", "sub", "summary", "sup", "table", "tbody", "td", "th", "thead"),
    *("time", "tr", "u", "ul", "var", "wbr"),
}
ATTRIBUTES = {
    "*": {"dir", "height", "lang", "style", "title", "width"},
    "a": {"href", "hreflang", "target"},
    "img": {"align", "alt", "src"},
    "ol": {"start", "type"},
    "td": {"align", "colspan", "rowspan", "valign"},
    "th": {"align", "colspan", "rowspan", "scope", "valign"},
}
# Those with which a text looks as somebody wants it, and none that would let it cover the page or
# load anything.
STYLES = {
    *("border", "border-bottom", "border-left", "border-radius", "border-right", "border-top"),
    *("color", "display", "font", "font-family", "font-size", "font-style", "font-weight"),
    *("height", "letter-spacing", "line-height", "list-style-type", "margin", "margin-bottom"),
    *("margin-left", "margin-right", "margin-top", "max-height", "max-width", "min-height"),
    *("min-width", "padding", "padding-bottom", "padding-left", "padding-right", "padding-top"),
    *("text-align", "text-decoration", "text-transform", "vertical-align", "white-space", "width"),
}

_cleaner = nh3.Cleaner(
    tags=TAGS,
    attributes=ATTRIBUTES,
    filter_style_properties=STYLES,
    url_schemes={"https", "http", "mailto", "tel"},
    link_rel="noopener noreferrer",
)


def harmless(value: Any) -> Any:
    """A document, with each text in it that is shown as HTML cleaned if it is HTML."""
    if isinstance(value, dict):
        return {
            name: cleaned(each)
            if name in SHOWN_AS_HTML and isinstance(each, str)
            else harmless(each)
            for name, each in value.items()
        }
    if isinstance(value, list):
        return [harmless(each) for each in value]
    return value


def cleaned(text: str) -> str:
    return _cleaner.clean(text) if nh3.is_html(text) else text

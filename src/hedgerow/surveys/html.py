"""Sanitizing of texts that SDKs render as HTML. Older SDKs do not sanitize them, and they run on
customers' pages.
"""

from functools import cache
from typing import TYPE_CHECKING, Any

from hedgerow.lib.optional_packages import LazyPackage

if TYPE_CHECKING:
    import nh3
else:
    nh3 = LazyPackage("nh3")

# The fields that some version of posthog-js renders as HTML, in questions, appearance or
# translations.
HTML_FIELDS = frozenset(
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
# Styles for the look of text. None of them can cover the page or load resources.
STYLES = {
    *("border", "border-bottom", "border-left", "border-radius", "border-right", "border-top"),
    *("color", "display", "font", "font-family", "font-size", "font-style", "font-weight"),
    *("height", "letter-spacing", "line-height", "list-style-type", "margin", "margin-bottom"),
    *("margin-left", "margin-right", "margin-top", "max-height", "max-width", "min-height"),
    *("min-width", "padding", "padding-bottom", "padding-left", "padding-right", "padding-top"),
    *("text-align", "text-decoration", "text-transform", "vertical-align", "white-space", "width"),
}


def sanitize_html(value: Any) -> Any:
    """Return a document with all of its HTML fields sanitized."""
    if isinstance(value, dict):
        return {
            name: clean_text(each)
            if name in HTML_FIELDS and isinstance(each, str)
            else sanitize_html(each)
            for name, each in value.items()
        }
    if isinstance(value, list):
        return [sanitize_html(each) for each in value]
    return value


def clean_text(text: str) -> str:
    return _build_cleaner().clean(text) if nh3.is_html(text) else text


@cache
def _build_cleaner() -> "nh3.Cleaner":
    return nh3.Cleaner(
        tags=TAGS,
        attributes=ATTRIBUTES,
        filter_style_properties=STYLES,
        url_schemes={"https", "http", "mailto", "tel"},
        link_rel="noopener noreferrer",
    )

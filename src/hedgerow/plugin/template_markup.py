"""Checks the text of a template before Liquid parses it: the expressions that find tags take
quadratic time for texts that no author would write. Linear. Pure.
"""

import re

from hedgerow.plugin.template_budget import TemplateError

# The weight of an expression such as {{ event.properties.plan }} is 2.
MAX_WEIGHT = 600
MAX_MARKUP_CHARS = 1_000
MAX_SPACES = 100
MAX_BRACKETS = 20
# Characters of markup that one step handles, on average.
STEP_MARKUP_CHARS = 20

# Two characters, and where the part that they begin ends.
_CLOSING = {"{{": "}}", "{%": "%}"}
_OPENING = re.compile(r"\{[{%]")
_SPACES = re.compile(rf"\s{{{MAX_SPACES + 1}}}")
_TAG_NAME = re.compile(r"\{%-?\s*(\w+)")
# Their content is not parsed.
_VERBATIM_END = {
    name: re.compile(rf"\{{%-?\s{{0,{MAX_SPACES}}}end{name}\s{{0,{MAX_SPACES}}}-?%\}}")
    for name in ("raw", "doc")
}
# There are no other templates to load.
_FORBIDDEN_TAGS = frozenset({"include", "render"})


def measure_markup(text: str) -> int:
    """Return a bound of the steps that one pass over the template takes, or raise TemplateError."""
    weight, position = 0, 0
    while (opening := _OPENING.search(text, position)) is not None:
        start = opening.start()
        closing = text.find(_CLOSING[opening.group()], start + 2)
        if closing < 0:
            ending = _CLOSING[opening.group()]
            raise _error(f"expected `{ending}` after `{text[start : start + 30]}`")
        position = closing + 2
        _check_markup(text[start:position])
        weight += 1 + (position - start) // STEP_MARKUP_CHARS
        check_weight(weight)
        name = _find_tag_name(text, start)
        if name in _VERBATIM_END:
            position = _find_verbatim_end(text, position, name)
    return weight


def check_weight(weight: int) -> None:
    """Raise TemplateError if parsing the texts of a template together would take long."""
    if weight > MAX_WEIGHT:
        raise _error("it has too many tags and expressions. Use at most about 300")


def _check_markup(markup: str) -> None:
    if len(markup) > MAX_MARKUP_CHARS:
        raise _error(
            f"`{markup[:30]}…` has {len(markup)} characters. The limit is {MAX_MARKUP_CHARS}"
        )
    if markup.count("[") > MAX_BRACKETS:
        raise _error(f"`{markup[:30]}…` has more than {MAX_BRACKETS} brackets")
    if _SPACES.search(markup):
        raise _error(f"`{markup[:30]}…` contains more than {MAX_SPACES} spaces in a row")


def _find_tag_name(text: str, start: int) -> str:
    found = _TAG_NAME.match(text, start)
    name = found.group(1) if found else ""
    if name in _FORBIDDEN_TAGS:
        raise _error(f"the tag `{name}` is not allowed, because there are no other templates")
    return name


def _find_verbatim_end(text: str, position: int, name: str) -> int:
    end = _VERBATIM_END[name].search(text, position)
    if end is None:
        raise _error(f"expected `{{% end{name} %}}`")
    return end.end()


def _error(reason: str) -> TemplateError:
    return TemplateError(f"The template cannot be parsed: {reason}.")

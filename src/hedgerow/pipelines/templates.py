"""JSON templates: a JSON value whose texts are Liquid templates over event, person, groups and
project. A text that is one expression and nothing else becomes the value of it, of any type.

Liquid has no way to Python: no attributes, no calls, no files. Loops and output are bounded.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from liquid import BoundTemplate, Environment, RenderContext
from liquid.builtin.output import OutputNode
from liquid.exceptions import LiquidError
from liquid.undefined import Undefined

from hedgerow.lib import jsonio

MAX_DEPTH = 50

Render = Callable[[Mapping[str, Any]], Any]


class TemplateProblem(ValueError):
    """A template that cannot be read, or that an event does not fit. The message says why."""


class Bounded(Environment):
    output_stream_limit = 256 * 1024
    local_namespace_limit = 256 * 1024
    loop_iteration_limit = 10_000
    context_depth_limit = 30


_environment = Bounded()


def compiled(template: Any) -> Render:
    """A function of what the template is over. TemplateProblem if the template cannot be read."""
    return _compiled(jsonio.encode(template))


@lru_cache(maxsize=1000)
def _compiled(template: bytes) -> Render:
    return _node(jsonio.decode(template), MAX_DEPTH)


def _node(template: Any, depth: int) -> Render:
    if depth == 0:
        raise TemplateProblem("The template is nested too deeply.")
    if isinstance(template, str):
        return _text(template)
    if isinstance(template, dict):
        fields = [(_text(name), _node(each, depth - 1)) for name, each in template.items()]
        return lambda given: {str(name(given)): each(given) for name, each in fields}
    if isinstance(template, list):
        items = [_node(each, depth - 1) for each in template]
        return lambda given: [each(given) for each in items]
    return lambda given: template


def _text(text: str) -> Render:
    if "{" not in text:
        return lambda given: text
    try:
        template = _environment.from_string(text)
    except LiquidError as error:
        raise TemplateProblem(f"The template cannot be read: {error.message}") from None
    only = template.nodes[0] if len(template.nodes) == 1 else None
    if isinstance(only, OutputNode):
        return lambda given: _value(template, only, given)
    return lambda given: _rendered(template, given)


def _rendered(template: BoundTemplate, given: Mapping[str, Any]) -> str:
    try:
        return template.render(**given)
    except LiquidError as error:
        raise TemplateProblem(f"The template does not fit: {error.message}") from None


def _value(template: BoundTemplate, node: OutputNode, given: Mapping[str, Any]) -> Any:
    try:
        value = node.expression.evaluate(RenderContext(template, globals=given))
    except LiquidError as error:
        raise TemplateProblem(f"The template does not fit: {error.message}") from None
    if isinstance(value, Undefined):
        return None
    try:
        jsonio.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return str(value)
    return value

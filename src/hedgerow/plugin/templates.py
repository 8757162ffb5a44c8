"""JSON templates: a JSON value whose strings are Liquid templates over event, person, groups and
project. A string that is exactly one expression becomes that expression's value, of any type.

Liquid gives templates no access to Python: no attributes, no calls, no files. Loops and output are
bounded.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, TypeVar

from hedgerow.events.model import Event
from hedgerow.lib import jsonio
from hedgerow.plugin.http import TransportError
from hedgerow.plugin.outcomes import Failed, Outcome

MAX_DEPTH = 50
LIMITS = {
    "output_stream_limit": 256 * 1024,
    "local_namespace_limit": 256 * 1024,
    "loop_iteration_limit": 10_000,
    "context_depth_limit": 30,
}

T = TypeVar("T")

TemplateFunction = Callable[[Mapping[str, Any]], Any]


class TemplateError(ValueError):
    """The template has a syntax error, or cannot be rendered for an event. The message says why."""


def compile_template(template: Any) -> TemplateFunction:
    """Return a function that renders the template with a payload of `build_payload`.

    Both may raise TemplateError. Compiled templates are cached.
    """
    return _compile(jsonio.encode(template))


@lru_cache(maxsize=1000)
def _compile(template: bytes) -> TemplateFunction:
    return _compile_value(jsonio.decode(template), MAX_DEPTH)


def _compile_value(template: Any, depth: int) -> TemplateFunction:
    if depth == 0:
        raise TemplateError(f"The template is nested deeper than {MAX_DEPTH} levels.")
    if isinstance(template, str):
        return _compile_text(template)
    if isinstance(template, dict):
        fields = [
            (_compile_text(name), _compile_value(value, depth - 1))
            for name, value in template.items()
        ]
        return lambda payload: {str(name(payload)): value(payload) for name, value in fields}
    if isinstance(template, list):
        items = [_compile_value(item, depth - 1) for item in template]
        return lambda payload: [item(payload) for item in items]
    return lambda payload: template


def _compile_text(text: str) -> TemplateFunction:
    if "{" not in text:
        return lambda payload: text
    liquid = _load_liquid()
    try:
        template = liquid.environment.from_string(text)
    except liquid.LiquidError as error:
        raise TemplateError(f"The template cannot be parsed: {error.message}") from None
    only = template.nodes[0] if len(template.nodes) == 1 else None
    if isinstance(only, liquid.OutputNode):
        return lambda payload: _evaluate(liquid, template, only, payload)
    return lambda payload: _render(liquid, template, payload)


class _Liquid:
    """The parts of Liquid that are used here."""

    def __init__(self) -> None:
        liquid = import_module("liquid")
        bounded = type("BoundedEnvironment", (liquid.Environment,), LIMITS)
        self.environment: Any = bounded()
        self.RenderContext: Any = liquid.RenderContext
        self.LiquidError: Any = import_module("liquid.exceptions").LiquidError
        self.OutputNode: Any = import_module("liquid.builtin.output").OutputNode
        self.Undefined: Any = import_module("liquid.undefined").Undefined


@cache
def _load_liquid() -> _Liquid:
    """Load Liquid on first use: it takes a quarter of a second of CPU, and most commands render
    nothing."""
    return _Liquid()


def _render(liquid: _Liquid, template: Any, payload: Mapping[str, Any]) -> str:
    try:
        return str(template.render(**payload))
    except liquid.LiquidError as error:
        raise TemplateError(f"The template cannot be rendered: {error.message}") from None


def _evaluate(liquid: _Liquid, template: Any, node: Any, payload: Mapping[str, Any]) -> Any:
    try:
        value = node.expression.evaluate(liquid.RenderContext(template, globals=payload))
    except liquid.LiquidError as error:
        raise TemplateError(f"The template cannot be rendered: {error.message}") from None
    if isinstance(value, liquid.Undefined):
        return None
    try:
        jsonio.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return str(value)
    return value


async def deliver_rendered(
    events: Sequence[Event],
    render: Callable[[Event], T],
    send: Callable[[Mapping[str, T]], Awaitable[Outcome]],
) -> Sequence[Outcome]:
    """Render each event and send all of them in one request.

    `render` may raise TemplateError, which fails that event alone. `send` receives the rendered
    events by uuid and returns the outcome of the request; it may raise TransportError.
    """
    outcomes: dict[str, Outcome] = {}
    rendered = {}
    for event in events:
        try:
            rendered[event.uuid] = render(event)
        except TemplateError as error:
            outcomes[event.uuid] = Failed(reason=str(error), is_final=True, event_rejected=True)
    if rendered:
        try:
            outcome = await send(rendered)
        except TransportError as error:
            outcome = Failed(reason=str(error))
        outcomes |= dict.fromkeys(rendered, outcome)
    return [outcomes[event.uuid] for event in events]

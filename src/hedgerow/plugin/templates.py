"""JSON templates: a JSON value whose strings are Liquid templates over event, person, groups and
project. A string that is exactly one expression becomes that expression's value, of any type.

Liquid gives templates no access to Python: no attributes, no calls, no files. Each body has a
budget, and a template that may take long is rendered in a worker process.
"""

from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, lru_cache
from types import coroutine
from typing import Any, TypeVar

from hedgerow.events.model import Event
from hedgerow.lib import jsonio
from hedgerow.lib.optional_packages import import_package
from hedgerow.lib.sync_bridge import await_inline, is_bridged
from hedgerow.plugin.http import TransportError
from hedgerow.plugin.outcomes import Failed, Outcome
from hedgerow.plugin.template_budget import (
    FULL_LIMITS,
    INLINE_LIMITS,
    Budget,
    BudgetLimits,
    TemplateBudgetExceeded,
    TemplateError,
)
from hedgerow.plugin.template_markup import check_weight, measure_markup

MAX_DEPTH = 50
MAX_TEMPLATE_BYTES = 100_000
MAX_CHEAP_WEIGHT = 300
CACHE_SIZE = 1000
# A batch lets other tasks run after this much work: characters of events, and a share per event.
STEP_CHARS = 100_000
EVENT_CHARS = 2_000

T = TypeVar("T")

TemplateFunction = Callable[[Mapping[str, Any]], Any]
# Renders a template, which is given as JSON, in another process. May raise TemplateError, and
# TransportError if a later attempt may succeed.
RemoteRender = Callable[[bytes, Mapping[str, Any]], Coroutine[Any, Any, Any]]
# Hedgerow sets it for each call of `deliver`. Without it, all templates are rendered in place.
remote_render: ContextVar[RemoteRender | None] = ContextVar("remote_render", default=None)

_Render = Callable[[Mapping[str, Any], Budget], Any]

__all__ = [
    "CompiledTemplate",
    "RemoteRender",
    "TemplateError",
    "TemplateFunction",
    "compile_template",
    "deliver_rendered",
    "load_liquid",
    "parse_template",
    "remote_render",
]


def compile_template(template: Any) -> TemplateFunction:
    """Return a function that renders the template with a payload of `build_payload`.

    Both may raise TemplateError. Compiled templates are cached. Inside `deliver`, a template with
    loops, costly filters or large values is rendered in another process, while other tasks
    continue. In a task that `deliver` starts this is impossible, so that template fails.
    """
    return parse_template(jsonio.encode(template)).render


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledTemplate:
    """A template, given as JSON. `is_cheap` templates are rendered in place."""

    source: bytes
    render_in_place: _Render
    is_cheap: bool

    def render(self, payload: Mapping[str, Any]) -> Any:
        render_remotely = remote_render.get()
        if render_remotely is None:
            return self.render_here(payload, FULL_LIMITS)
        can_wait = is_bridged()
        if self.is_cheap or not can_wait:
            try:
                return self.render_here(payload, INLINE_LIMITS)
            except TemplateBudgetExceeded:
                if not can_wait:
                    raise
        return await_inline(render_remotely(self.source, payload))

    def render_here(self, payload: Mapping[str, Any], limits: BudgetLimits) -> Any:
        return self.render_in_place(payload, Budget(limits))


@lru_cache(maxsize=CACHE_SIZE)
def parse_template(source: bytes) -> CompiledTemplate:
    """Parse a template that is given as JSON."""
    if len(source) > MAX_TEMPLATE_BYTES:
        raise TemplateError(
            f"The template has {len(source):,} bytes. The limit is {MAX_TEMPLATE_BYTES:,} bytes."
        )
    compiler, template = _Compiler(), jsonio.decode(source)
    render = compiler.compile_value(template, MAX_DEPTH) or _constant(template)
    return CompiledTemplate(
        source=source,
        render_in_place=render,
        is_cheap=compiler.has_only_cheap_texts and compiler.weight <= MAX_CHEAP_WEIGHT,
    )


class _Compiler:
    """Compiles a JSON value. Its methods return None for a value without markup."""

    def __init__(self) -> None:
        self.weight = 0
        self.has_only_cheap_texts = True

    def compile_value(self, template: Any, depth: int) -> _Render | None:
        if depth == 0:
            raise TemplateError(f"The template is nested deeper than {MAX_DEPTH} levels.")
        if isinstance(template, str):
            return self._compile_text(template)
        if isinstance(template, dict):
            return self._compile_object(template, depth)
        if isinstance(template, list):
            return self._compile_array(template, depth)
        return None

    def _compile_object(self, template: dict[str, Any], depth: int) -> _Render | None:
        compiled = [
            (self._compile_text(name), name, self.compile_value(value, depth - 1), value)
            for name, value in template.items()
        ]
        if not any(render_name or render for render_name, _, render, _ in compiled):
            return None
        fields = [
            (render_name or _constant(name), render or _constant(value))
            for render_name, name, render, value in compiled
        ]
        return lambda payload, budget: {
            str(render_name(payload, budget)): render(payload, budget)
            for render_name, render in fields
        }

    def _compile_array(self, template: list[Any], depth: int) -> _Render | None:
        compiled = [self.compile_value(item, depth - 1) for item in template]
        if not any(compiled):
            return None
        items = [render or _constant(item) for render, item in zip(compiled, template, strict=True)]
        return lambda payload, budget: [render(payload, budget) for render in items]

    def _compile_text(self, text: str) -> _Render | None:
        if not (weight := measure_markup(text)):
            return None
        self.weight += weight
        check_weight(self.weight)
        parsed = load_liquid().parse_text(text, weight)
        self.has_only_cheap_texts = self.has_only_cheap_texts and parsed.is_cheap

        def render(payload: Mapping[str, Any], budget: Budget) -> Any:
            value = parsed.render(payload, budget)
            return value if isinstance(value, str) else _to_json_value(value)

        return render


def _constant(value: Any) -> _Render:
    return lambda payload, budget: value


@cache
def load_liquid() -> Any:
    """Load Liquid, which takes a quarter of a second of CPU. Most commands render nothing."""
    return import_package("hedgerow.plugin.liquid_texts")


def _to_json_value(value: Any) -> Any:
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
    work = 0
    for event in events:
        try:
            rendered[event.uuid] = render(event)
        except TemplateError as error:
            outcomes[event.uuid] = Failed(reason=str(error), is_final=True, event_rejected=True)
        except TransportError as error:
            outcomes[event.uuid] = Failed(reason=str(error))
        work += EVENT_CHARS + len(event.properties) + len(event.person_properties)
        if work > STEP_CHARS:
            await _yield_to_other_tasks()
            work = 0
    if rendered:
        try:
            outcome = await send(rendered)
        except TransportError as error:
            outcome = Failed(reason=str(error))
        outcomes |= dict.fromkeys(rendered, outcome)
    return [outcomes[event.uuid] for event in events]


@coroutine
def _yield_to_other_tasks() -> Generator[None]:
    """The same as asyncio.sleep(0). This module does no I/O, so it does not import asyncio."""
    yield

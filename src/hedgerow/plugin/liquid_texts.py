"""Liquid with a budget: every lookup, loop, filter and text is charged.

Imported on first use: Liquid takes a quarter of a second of CPU to load, and most commands render
nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import StringIO
from typing import Any

from liquid import BoundTemplate, Environment, RenderContext
from liquid.builtin.output import OutputNode
from liquid.exceptions import LiquidError
from liquid.undefined import Undefined

from hedgerow.plugin.template_budget import Budget, TemplateError

# Characters of an assigned value that one step handles. Fewer than usual: it stays in memory.
STEP_ASSIGNED_CHARS = 10
CHEAP_TAGS = frozenset({"assign", "case", "comment", "echo", "if", "unless", "#"})
# Linear in the sizes that a budget bounds, without regular expressions and free date formats.
CHEAP_FILTERS = frozenset(
    {
        *("abs", "at_least", "at_most", "ceil", "divided_by", "floor", "minus", "modulo"),
        *("plus", "round", "times", "append", "capitalize", "default", "downcase", "escape"),
        *("lstrip", "prepend", "remove", "replace", "rstrip", "slice", "split", "strip"),
        *("truncate", "upcase", "url_encode", "base64_encode", "first", "join", "last", "size"),
    }
)

Payload = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiquidText:
    """A parsed template. `weight` is the steps of one pass over it. `is_cheap`: it has no loops and
    only cheap filters."""

    template: BoundTemplate
    weight: int
    is_cheap: bool

    def render(self, payload: Payload, budget: Budget) -> Any:
        """Return the text, or the value of a template that is exactly one expression. Raises
        TemplateError."""
        try:
            return self._render(payload, budget)
        except LiquidError as error:
            raise TemplateError(f"The template cannot be rendered: {error.message}") from None
        except (TemplateError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 - filters raise what Python raises for odd values
            reason = f"{type(error).__name__}: {error}"
            raise TemplateError(f"The template cannot be rendered: {reason}") from None

    def _render(self, payload: Payload, budget: Budget) -> Any:
        context = _BudgetedContext(self.template, payload, budget, self.weight)
        nodes = self.template.nodes
        if len(nodes) == 1 and isinstance(nodes[0], OutputNode):
            value = nodes[0].expression.evaluate(context)
            budget.charge_output(value)
            return None if isinstance(value, Undefined) else value
        output = _Output(budget)
        self.template.render_with_context(context, output)
        return output.getvalue()


def parse_text(text: str, weight: int) -> LiquidText:
    """Parse a template whose markup was checked. Raises TemplateError."""
    try:
        template = _environment.from_string(text)
    except LiquidError as error:
        raise TemplateError(f"The template cannot be parsed: {error.message}") from None
    used = template.analyze(include_partials=False)
    if unknown := used.filters.keys() - _environment.filters.keys():
        raise TemplateError(f"The template cannot be parsed: unknown filter `{min(unknown)}`")
    has_cheap_parts = used.tags.keys() <= CHEAP_TAGS and used.filters.keys() <= CHEAP_FILTERS
    return LiquidText(
        template=template, weight=weight, is_cheap=has_cheap_parts and ".." not in text
    )


class _Output(StringIO):
    """The output of a template, or of a `capture` in it."""

    def __init__(self, budget: Budget) -> None:
        super().__init__()
        self._budget = budget

    def write(self, text: str, /) -> int:
        self._budget.charge_output(text)
        return super().write(text)


class _BudgetedContext(RenderContext):
    __slots__ = ("_budget", "_weight")

    def __init__(
        self, template: BoundTemplate, payload: Payload, budget: Budget, weight: int
    ) -> None:
        super().__init__(template, globals=payload)
        self._budget = budget
        self._weight = weight
        budget.charge(weight)

    def get(self, path: list[object], **options: Any) -> object:
        value = super().get(path, **options)
        self._budget.charge_value(value)
        return value

    def assign(self, key: str, val: Any) -> None:
        self._budget.charge_value(val, STEP_ASSIGNED_CHARS)
        super().assign(key, val)

    def raise_for_loop_limit(self, length: int = 1) -> None:
        """Charge a loop when it begins: each iteration is at most one pass."""
        self._budget.charge(length * self._weight)

    def get_buffer(self, buf: object = None) -> StringIO:
        return _Output(self._budget)

    def filter(self, name: str, token: Any) -> Callable[..., object]:
        run, budget = super().filter(name, token), self._budget

        def run_charged(value: object, *args: object, **options: object) -> object:
            for each in (value, *args, *options.values()):
                budget.charge_value(each)
            if measure := _RESULT_CHARS.get(name):
                budget.charge_chars(measure(value, args))
            result = run(value, *args, **options)
            budget.charge_value(result)
            return result

        return run_charged


def _measure_replaced(value: object, args: tuple[object, ...]) -> int:
    text, old, new = (str(each) for each in (value, *(*args, "", "")[:2]))
    return len(text) + (text.count(old) if old else len(text) + 1) * len(new)


def _measure_joined(value: object, args: tuple[object, ...]) -> int:
    items = len(value) if isinstance(value, list | tuple | range) else 1
    return items * len(str(args[0] if args else " "))


# The size of results that can be much larger than the values they are made from.
_RESULT_CHARS: Mapping[str, Callable[[object, tuple[object, ...]], int]] = {
    "replace": _measure_replaced,
    "join": _measure_joined,
}

_environment = Environment()

"""The budget of a template: steps, the size of each value, and the size of the result.

Work is charged before it is done, so that a small template cannot cause a large result.
"""

from dataclasses import dataclass

# Characters that one step handles.
STEP_CHARS = 100
# An item of an array or an object counts as this many characters, as in JSON.
ITEM_CHARS = 2


class TemplateError(ValueError):
    """The template has a syntax error, or cannot be rendered for an event. The message says why."""


class TemplateBudgetExceeded(TemplateError):
    """The template needs more than its budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLimits:
    """A step takes about a microsecond. `value_chars` bounds each value, `output_chars` the result
    of all templates of a body."""

    steps: int
    value_chars: int
    output_chars: int


# For the event loop: a few milliseconds.
INLINE_LIMITS = BudgetLimits(steps=2_000, value_chars=20_000, output_chars=100_000)
# An event has at most 1 MB; its person and groups add to it.
FULL_LIMITS = BudgetLimits(steps=500_000, value_chars=4_000_000, output_chars=4_000_000)


class Budget:
    """What the templates of one body may still use."""

    def __init__(self, limits: BudgetLimits) -> None:
        self._limits = limits
        self._steps = limits.steps
        self._value_chars = limits.value_chars
        self._output_chars = limits.output_chars

    def charge(self, steps: int) -> None:
        self._steps -= steps
        if self._steps < 0:
            raise TemplateBudgetExceeded(
                f"The template takes more than {self._limits.steps:,} steps. Use shorter loops and "
                "smaller values."
            )

    def charge_value(self, value: object, step_chars: int = STEP_CHARS) -> None:
        # Called for every lookup, most of which find short texts.
        if type(value) is str and len(value) < step_chars and self._steps:
            self._steps -= 1
        else:
            self.charge_chars(measure_value(value, self._value_chars), step_chars)

    def charge_chars(self, chars: int, step_chars: int = STEP_CHARS) -> None:
        """Charge a value of this size."""
        if chars > self._value_chars:
            raise TemplateBudgetExceeded(
                f"A value in the template has more than {self._value_chars:,} characters. "
                "Use a shorter range or a smaller value."
            )
        self.charge(1 + chars // step_chars)

    def charge_output(self, value: object) -> None:
        self._output_chars -= measure_value(value, self._output_chars)
        if self._output_chars < 0:
            raise TemplateBudgetExceeded(
                f"The rendered template has more than {self._limits.output_chars:,} characters."
            )


def measure_value(value: object, limit: int) -> int:
    """Return the approximate characters of a value, or some number above the limit."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, int):
        return value.bit_length() // 3 + 1
    if isinstance(value, range):
        # len() fails for a range that is longer than an address.
        return max(0, value.stop - value.start) * ITEM_CHARS
    total = 1
    if isinstance(value, dict):
        for name, each in value.items():
            total += ITEM_CHARS + len(name) + measure_value(each, limit - total)
            if total > limit:
                break
    elif isinstance(value, list | tuple):
        for each in value:
            total += ITEM_CHARS + measure_value(each, limit - total)
            if total > limit:
                break
    return total

"""Charts as values: what to draw, without positions and colors.

A result may have any number of series, points and rows. A chart keeps as many as one can read in a
picture, and says how many it left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

MAX_SERIES = 12
MAX_POINTS = 400
MAX_BARS = 15
MAX_STEPS = 20
MAX_COLUMNS = 15
MAX_ROWS = 25
TITLE_MAX_CHARS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnSeries:
    """One line or one color of bars. `is_previous` means that it belongs to the period before; it
    has the color of the series with the same `number`."""

    label: str
    values: Sequence[float]
    number: int
    is_previous: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeChart:
    """Series over time, one value for each of `moments`, which are texts for the axis. `is_bars`
    stacks them. `unit` follows each number, such as %."""

    moments: Sequence[str]
    series: Sequence[DrawnSeries]
    is_bars: bool = False
    unit: str = ""
    omitted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    label: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BarChart:
    """Named amounts, largest first."""

    bars: Sequence[Bar]
    omitted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FunnelStep:
    """`detail` is such as the median time from the step before."""

    label: str
    count: int
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunnelChart:
    steps: Sequence[FunnelStep]
    omitted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """`share` from 0 to 1 colors the cell."""

    text: str
    share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChart:
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    omitted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberChart:
    """`change` compares with the period before, such as +12 %."""

    value: float
    change: str = ""
    is_increase: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageChart:
    """A text in place of a chart: no data, or an error."""

    text: str


Body = TimeChart | BarChart | FunnelChart | TableChart | NumberChart | MessageChart


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """`subtitle` is such as the period and its time zone, `footer` when it was computed."""

    title: str
    subtitle: str
    footer: str
    body: Body

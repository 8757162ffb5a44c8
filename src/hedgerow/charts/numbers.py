"""Numbers and axes as a reader expects them."""

import math

_UNITS = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))


def is_drawable(value: object) -> bool:
    """Whether a value is a number that has a place on an axis."""
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and abs(value) < 1e30
    )


def format_number(value: float, unit: str = "") -> str:
    """Format a number exactly, with at most two decimals: 1,234.5."""
    if abs(value) >= 1e15:
        return f"{value:.3g}{unit}"
    text = f"{value:,.2f}".rstrip("0").rstrip(".")
    return f"{'0' if text == '-0' else text}{unit}"


def format_short(value: float, unit: str = "") -> str:
    """Format a number of an axis: 1.5k."""
    for size, name in _UNITS:
        if abs(value) >= size:
            return f"{value / size:.4g}{name}{unit}"
    return f"{value:.3g}{unit}"


def format_percent(share: float) -> str:
    return f"{share * 100:.1f}".removesuffix(".0") + "%"


def format_duration(seconds: float) -> str:
    """Format a duration in its two largest units: 2 h 5 min."""
    parts: list[str] = []
    left = max(0, round(seconds))
    for size, name in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        number, left = divmod(left, size)
        if number:
            parts.append(f"{number} {name}")
    return " ".join(parts[:2]) or "0 s"


def choose_ticks(lowest: float, highest: float, count: int = 4) -> list[float]:
    """Return evenly spaced round numbers that hold both values, and zero."""
    lowest, highest = min(0.0, lowest), max(0.0, highest)
    if lowest == highest:
        highest = 1.0
    step = _round_step((highest - lowest) / count)
    first, last = math.floor(lowest / step), math.ceil(highest / step - 1e-9)
    return [number * step for number in range(first, last + 1)]


def _round_step(step: float) -> float:
    size = 10.0 ** math.floor(math.log10(step))
    return next((each * size for each in (1, 2, 2.5, 5) if each * size >= step), 10 * size)

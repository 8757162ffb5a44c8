"""Exposure criteria and statistics settings, parsed from PostHog's documents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from hedgerow.filters.validate import raise_invalid
from hedgerow.lib.text import truncate

FLAG_CALLED_EVENT = "$feature_flag_called"
BAYESIAN, FREQUENTIST = "bayesian", "frequentist"
DEFAULT_LEVEL = 0.95
MIN_LEVEL, MAX_LEVEL = 0.5, 0.999
MIN_ALPHA, MAX_ALPHA = 0.001, 0.5
DEFAULT_LOOKBACK_DAYS, MAX_LOOKBACK_DAYS = 7, 30

_CRITERIA_ATTR = "exposure_criteria"
_STATS_ATTR = "stats_config"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposureCriteria:
    """`variant_property` is the event property with the variant. People who saw several variants
    are excluded unless `is_first_variant_kept`."""

    event: str
    variant_property: str
    is_flag_called: bool
    properties: Sequence[Any]
    is_first_variant_kept: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsConfig:
    """`level` is the probability that a credible interval contains the true value, or the coverage
    of a confidence interval. With `is_sequential`, that holds however often one looks. `lookback`
    is how far before its exposure the history of a person counts, None if it does not."""

    method: str
    level: float
    is_sequential: bool = False
    lookback: timedelta | None = None


def parse_criteria(sent: Mapping[str, Any], flag_key: str) -> ExposureCriteria:
    handling = sent.get("multiple_variant_handling")
    if handling not in (None, "exclude", "first_seen"):
        detail = (
            f'"{truncate(handling)}" is not a valid choice. Expected one of: exclude, first_seen.'
        )
        raise_invalid(f"{_CRITERIA_ATTR}.multiple_variant_handling", detail, "invalid_choice")
    config = sent.get("exposure_config")
    attr = f"{_CRITERIA_ATTR}.exposure_config"
    if config is None:
        config = {}
    if not isinstance(config, dict):
        detail = f'Expected a dictionary of items but got type "{type(config).__name__}".'
        raise_invalid(attr, detail, "not_a_dict")
    kind = config.get("kind", "ExperimentEventExposureConfig")
    if kind != "ExperimentEventExposureConfig":
        detail = f'"{truncate(kind)}" is not supported. Expected: ExperimentEventExposureConfig.'
        raise_invalid(f"{attr}.kind", detail, "invalid_choice")
    event = config.get("event") or FLAG_CALLED_EVENT
    if not isinstance(event, str):
        raise_invalid(f"{attr}.event", "Not a valid string.")
    properties = config.get("properties") or []
    if not isinstance(properties, list):
        raise_invalid(f"{attr}.properties", "Expected a list of filters.", "not_a_list")
    is_flag_called = event == FLAG_CALLED_EVENT
    return ExposureCriteria(
        event=event,
        # SDKs add the flags that they evaluated to all other events.
        variant_property="$feature_flag_response" if is_flag_called else f"$feature/{flag_key}",
        is_flag_called=is_flag_called,
        properties=properties,
        is_first_variant_kept=handling == "first_seen",
    )


def parse_stats(sent: Mapping[str, Any]) -> StatsConfig:
    method = sent.get("method")
    if method not in (None, BAYESIAN, FREQUENTIST):
        detail = f'"{truncate(method)}" is not supported. Expected one of: bayesian, frequentist.'
        raise_invalid(f"{_STATS_ATTR}.method", detail, "invalid_choice")
    # Both are validated, whichever method is used.
    level = _parse_number(sent, BAYESIAN, "ci_level", MIN_LEVEL, MAX_LEVEL)
    alpha = _parse_number(sent, FREQUENTIST, "alpha", MIN_ALPHA, MAX_ALPHA)
    is_sequential = _parse_sequential(sent)
    lookback = _parse_lookback(sent)
    if method == FREQUENTIST:
        return StatsConfig(
            method=FREQUENTIST,
            level=DEFAULT_LEVEL if alpha is None else 1 - alpha,
            is_sequential=is_sequential,
            lookback=lookback,
        )
    return StatsConfig(
        method=BAYESIAN, level=DEFAULT_LEVEL if level is None else level, lookback=lookback
    )


def _parse_lookback(sent: Mapping[str, Any]) -> timedelta | None:
    """Names, default and maximum are PostHog's, which changes larger numbers silently. Evidence:
    PostHog's products/experiments/backend/hogql_queries/cuped_config.py."""
    cuped, attr = sent.get("cuped"), f"{_STATS_ATTR}.cuped"
    if cuped is None:
        return None
    if not isinstance(cuped, dict):
        detail = f'Expected a dictionary of items but got type "{type(cuped).__name__}".'
        raise_invalid(attr, detail, "not_a_dict")
    enabled, days = cuped.get("enabled"), cuped.get("lookback_days")
    if not isinstance(enabled, bool | None):
        raise_invalid(f"{attr}.enabled", "Must be a valid boolean.")
    days = DEFAULT_LOOKBACK_DAYS if days is None else days
    if isinstance(days, bool) or not isinstance(days, int) or not 1 <= days <= MAX_LOOKBACK_DAYS:
        detail = f"Expected a whole number from 1 to {MAX_LOOKBACK_DAYS}."
        raise_invalid(f"{attr}.lookback_days", detail)
    return timedelta(days=days) if enabled else None


def _parse_number(
    sent: Mapping[str, Any], method: str, name: str, minimum: float, maximum: float
) -> float | None:
    """Parse a setting of one method. Returns None if it is missing."""
    own = sent.get(method)
    if own is None:
        return None
    if not isinstance(own, dict):
        detail = f'Expected a dictionary of items but got type "{type(own).__name__}".'
        raise_invalid(f"{_STATS_ATTR}.{method}", detail, "not_a_dict")
    number = own.get(name)
    if number is None:
        return None
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    if not is_number or not minimum <= number <= maximum:
        raise_invalid(
            f"{_STATS_ATTR}.{method}.{name}", f"Expected a number from {minimum} to {maximum}."
        )
    return float(number)


def _parse_sequential(sent: Mapping[str, Any]) -> bool:
    enabled = (sent.get(FREQUENTIST) or {}).get("sequential_testing_enabled")
    if not isinstance(enabled, bool | None):
        attr = f"{_STATS_ATTR}.{FREQUENTIST}.sequential_testing_enabled"
        raise_invalid(attr, "Must be a valid boolean.")
    return bool(enabled)

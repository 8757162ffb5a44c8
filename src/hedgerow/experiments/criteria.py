"""Who counts as exposed, and how sure a result must be, read from PostHog's documents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hedgerow.filters.rules import refuse
from hedgerow.lib.text import cut_short

CALLED = "$feature_flag_called"
BAYESIAN, FREQUENTIST = "bayesian", "frequentist"
LEVEL = 0.95
LEAST_LEVEL, MOST_LEVEL = 0.5, 0.999
LEAST_ALPHA, MOST_ALPHA = 0.001, 0.5

_CRITERIA = "exposure_criteria"
_STATS = "stats_config"


@dataclass(frozen=True, slots=True, kw_only=True)
class Criteria:
    """`variant_in` is the property of the event that holds the variant. People seen with several
    variants are left out, unless `is_first_kept`."""

    event: str
    variant_in: str
    names_flag: bool
    properties: Sequence[Any]
    is_first_kept: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """`level` is how probable it is that a credible interval holds the truth, or how often a
    confidence interval does."""

    method: str
    level: float


def read_criteria(sent: Mapping[str, Any], flag_key: str) -> Criteria:
    handling = sent.get("multiple_variant_handling")
    if handling not in (None, "exclude", "first_seen"):
        detail = f'"{cut_short(handling)}" is not a valid choice: exclude and first_seen are.'
        refuse(f"{_CRITERIA}.multiple_variant_handling", detail, "invalid_choice")
    config = sent.get("exposure_config")
    place = f"{_CRITERIA}.exposure_config"
    if config is None:
        config = {}
    if not isinstance(config, dict):
        detail = f'Expected a dictionary of items but got type "{type(config).__name__}".'
        refuse(place, detail, "not_a_dict")
    kind = config.get("kind", "ExperimentEventExposureConfig")
    if kind != "ExperimentEventExposureConfig":
        detail = f'"{cut_short(kind)}" shows no exposure here: ExperimentEventExposureConfig does.'
        refuse(f"{place}.kind", detail, "invalid_choice")
    event = config.get("event") or CALLED
    if not isinstance(event, str):
        refuse(f"{place}.event", "Not a valid string.")
    properties = config.get("properties") or []
    if not isinstance(properties, list):
        refuse(f"{place}.properties", "A list of filters is required.", "not_a_list")
    is_called = event == CALLED
    return Criteria(
        event=event,
        # SDKs put the flags that they know of on every other event.
        variant_in="$feature_flag_response" if is_called else f"$feature/{flag_key}",
        names_flag=is_called,
        properties=properties,
        is_first_kept=handling == "first_seen",
    )


def read_stats(sent: Mapping[str, Any]) -> Stats:
    method = sent.get("method")
    if method not in (None, BAYESIAN, FREQUENTIST):
        detail = f'"{cut_short(method)}" is not possible here: bayesian and frequentist are.'
        refuse(f"{_STATS}.method", detail, "invalid_choice")
    # Both are checked, whichever is used.
    level = _number(sent, BAYESIAN, "ci_level", LEAST_LEVEL, MOST_LEVEL)
    alpha = _number(sent, FREQUENTIST, "alpha", LEAST_ALPHA, MOST_ALPHA)
    if method == FREQUENTIST:
        return Stats(method=FREQUENTIST, level=LEVEL if alpha is None else 1 - alpha)
    return Stats(method=BAYESIAN, level=LEVEL if level is None else level)


def _number(
    sent: Mapping[str, Any], method: str, name: str, least: float, most: float
) -> float | None:
    """A setting of one method, None where there is none."""
    own = sent.get(method)
    if own is None:
        return None
    if not isinstance(own, dict):
        detail = f'Expected a dictionary of items but got type "{type(own).__name__}".'
        refuse(f"{_STATS}.{method}", detail, "not_a_dict")
    number = own.get(name)
    if number is None:
        return None
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    if not is_number or not least <= number <= most:
        refuse(f"{_STATS}.{method}.{name}", f"A number from {least} to {most} is required.")
    return float(number)

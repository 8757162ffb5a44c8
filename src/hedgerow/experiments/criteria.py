"""Who counts as exposed, and how sure a result must be, read from PostHog's documents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hedgerow.kit.text import cut_short
from hedgerow.properties.rules import refuse

CALLED = "$feature_flag_called"
LEVEL = 0.95
LEAST_LEVEL, MOST_LEVEL = 0.5, 0.999

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


def read_level(sent: Mapping[str, Any]) -> float:
    """How probable it is that a credible interval holds the truth."""
    method = sent.get("method")
    if method not in (None, "bayesian"):
        detail = f'"{cut_short(method)}" is not possible here: bayesian is.'
        refuse(f"{_STATS}.method", detail, "invalid_choice")
    own = sent.get("bayesian")
    if own is None:
        own = {}
    if not isinstance(own, dict):
        detail = f'Expected a dictionary of items but got type "{type(own).__name__}".'
        refuse(f"{_STATS}.bayesian", detail, "not_a_dict")
    level = own.get("ci_level")
    if level is None:
        return LEVEL
    is_number = isinstance(level, int | float) and not isinstance(level, bool)
    if not is_number or not LEAST_LEVEL <= level <= MOST_LEVEL:
        detail = f"A number from {LEAST_LEVEL} to {MOST_LEVEL} is required."
        refuse(f"{_STATS}.bayesian.ci_level", detail)
    return float(level)

"""What a cohort asks, down through the cohorts that it asks for."""

from collections.abc import Iterable, Mapping
from typing import Any

from hedgerow.persons.model import Cohort, CohortId

# Groups of filters within groups and cohorts within cohorts, together: each level is evaluated
# inside the one above it, and they must fit on the stack.
MAX_LEVELS = 50


def asked_within(definition: Any, cohorts: Mapping[CohortId, Cohort]) -> list[Any] | None:
    """Every group and filter of a definition and of the cohorts that it asks for; None when they
    go too deep, or in a circle."""
    found: list[Any] = []
    level = [definition]
    for _ in range(MAX_LEVELS):
        found += level
        asked = {id for node in level if (id := asked_cohort(node)) is not None}
        level = [part for node in level for part in _parts_of(node)] + [
            cohorts[id].definition for id in asked & cohorts.keys() if not cohorts[id].is_static
        ]
        if not level:
            return found
    return None


def asked_cohort(node: Any) -> CohortId | None:
    """The cohort that a filter asks for, None for anything else."""
    if not isinstance(node, Mapping) or node.get("type") != "cohort":
        return None
    value = node.get("value")
    return CohortId(value) if isinstance(value, int) and not isinstance(value, bool) else None


def asks_behaviour(nodes: Iterable[Any]) -> bool:
    return any(
        isinstance(node, Mapping) and str(node.get("type")).startswith("behav") for node in nodes
    )


def _parts_of(node: Any) -> list[Any]:
    values = node.get("values") if isinstance(node, Mapping) else None
    return values if isinstance(values, list) else []

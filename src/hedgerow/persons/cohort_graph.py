"""Walk the definition of a cohort, including the cohorts that it refers to."""

from collections.abc import Iterable, Mapping
from typing import Any

from hedgerow.persons.model import Cohort, CohortId

# Nested filter groups and nested cohorts together. Evaluation recurses, so they must fit on the
# stack.
MAX_LEVELS = 50


def collect_nodes(definition: Any, cohorts: Mapping[CohortId, Cohort]) -> list[Any] | None:
    """Return every group and filter of a definition and of the cohorts that it refers to. None if
    they are nested too deep or in a cycle."""
    found: list[Any] = []
    level = [definition]
    for _ in range(MAX_LEVELS):
        found += level
        references = {id for node in level if (id := referenced_cohort(node)) is not None}
        level = [part for node in level for part in _get_children(node)] + [
            cohorts[id].definition
            for id in references & cohorts.keys()
            if not cohorts[id].is_static
        ]
        if not level:
            return found
    return None


def referenced_cohort(node: Any) -> CohortId | None:
    """Return the cohort that a filter refers to, None for any other filter."""
    if not isinstance(node, Mapping) or node.get("type") != "cohort":
        return None
    value = node.get("value")
    return CohortId(value) if isinstance(value, int) and not isinstance(value, bool) else None


def has_behavioral_filter(nodes: Iterable[Any]) -> bool:
    return any(
        isinstance(node, Mapping) and str(node.get("type")).startswith("behav") for node in nodes
    )


def _get_children(node: Any) -> list[Any]:
    values = node.get("values") if isinstance(node, Mapping) else None
    return values if isinstance(values, list) else []

"""The graph of cohorts that refer to each other.

A definition can name the same cohort many times, also through others. Everything that uses
definitions visits each cohort once, and refuses a graph that is too large before it starts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hedgerow.lib import jsonio
from hedgerow.persons.behaviors.filters import BEHAVIORAL
from hedgerow.persons.model import Cohort, CohortId

# Nested filter groups and nested cohorts together. Evaluation recurses, so they must fit on the
# stack.
MAX_LEVELS = 50
# Groups and filters of a cohort and of all cohorts that it refers to, each counted once.
MAX_NODES = 3000
MAX_COHORTS = 100
MAX_BYTES = 2 << 20

COHORT_TYPES = ("cohort", "static-cohort")


class CohortTooLarge(ValueError):
    """A cohort is too large, nested too deep or contains itself. The message says which."""

    def __init__(self, detail: str, code: str = "cohort_too_large") -> None:
        super().__init__(detail, code)
        self.detail = detail
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionOutline:
    """The size of one definition, without the cohorts that it refers to. `references` has the
    deepest level at which each of those is named."""

    nodes: int
    levels: int
    size_bytes: int
    references: Mapping[CohortId, int]
    is_behavioral: bool


class CohortGraph:
    """The definitions of a project's cohorts. Static and deleted ones have none. Each definition is
    read once."""

    def __init__(self, definitions: Mapping[CohortId, Any]) -> None:
        self._definitions = definitions
        self._outlines: dict[CohortId, DefinitionOutline] = {}
        self._orders: dict[CohortId, Sequence[CohortId] | CohortTooLarge] = {}

    def replace(self, id: CohortId, definition: Any) -> "CohortGraph":
        """Return the graph with another definition of one cohort."""
        changed = CohortGraph({**self._definitions, id: definition})
        changed._outlines = {each: found for each, found in self._outlines.items() if each != id}
        return changed

    def count_bytes(self) -> int:
        """Return the size of all definitions."""
        outlines = map(self.outline, self._definitions)
        return sum(outline.size_bytes for outline in outlines if outline is not None)

    def outline(self, id: CohortId) -> DefinitionOutline | None:
        """Return the outline of a cohort, None for one without a definition."""
        found = self._outlines.get(id)
        if found is None and id in self._definitions:
            found = self._outlines[id] = outline_definition(self._definitions[id])
        return found

    def order(self, id: CohortId) -> Sequence[CohortId]:
        """Return the cohort and all cohorts that it refers to, each after those that it refers to.
        Includes those without a definition. Raises CohortTooLarge."""
        found = self._orders.get(id)
        if found is None:
            try:
                found = self._order(id)
            except CohortTooLarge as error:
                found = error
            self._orders[id] = found
        if isinstance(found, CohortTooLarge):
            raise CohortTooLarge(*found.args)
        return found

    def find_problem(self, id: CohortId) -> CohortTooLarge | None:
        """Say why a cohort is too large, None if it is not."""
        try:
            self.order(id)
        except CohortTooLarge as error:
            return error
        return None

    def find_users(self, id: CohortId) -> list[CohortId]:
        """Return the cohorts that refer to a cohort, directly or through others."""
        users: dict[CohortId, list[CohortId]] = {}
        for each in self._definitions:
            outline = self.outline(each)
            for reference in outline.references if outline else ():
                users.setdefault(reference, []).append(each)
        found: dict[CohortId, None] = {}
        pending = [id]
        while pending:
            new = [user for user in users.get(pending.pop(), ()) if user not in found]
            found.update(dict.fromkeys(new))
            pending += new
        return list(found)

    def _order(self, root: CohortId) -> list[CohortId]:
        outlines = self._collect(root)
        levels: dict[CohortId, int] = {}
        waiting = [root]
        while waiting:
            id = waiting[-1]
            outline = outlines[id]
            references = outline.references if outline else {}
            missing = [each for each in references if each not in levels]
            if not missing:
                waiting.pop()
                below = [at + levels[each] for each, at in references.items()]
                levels[id] = max([outline.levels if outline else 0, *below])
            elif len(waiting) > MAX_LEVELS or not set(missing).isdisjoint(waiting):
                raise _nested_too_deep()
            else:
                waiting.append(missing[0])
        if levels[root] > MAX_LEVELS:
            raise _nested_too_deep()
        return list(levels)

    def _collect(self, root: CohortId) -> dict[CohortId, DefinitionOutline | None]:
        found: dict[CohortId, DefinitionOutline | None] = {}
        pending = [root]
        nodes = size_bytes = 0
        while pending:
            id = pending.pop()
            if id in found:
                continue
            outline = found[id] = self.outline(id)
            if outline is not None:
                nodes += outline.nodes
                size_bytes += outline.size_bytes
                pending += outline.references
            if len(found) > MAX_COHORTS or nodes > MAX_NODES or size_bytes > MAX_BYTES:
                raise CohortTooLarge(
                    f"A cohort and the cohorts that it refers to can have at most {MAX_NODES} "
                    f"filters and groups in at most {MAX_COHORTS} cohorts, and {MAX_BYTES >> 20} "
                    "MiB of JSON."
                )
        return found


def collect_definitions(cohorts: Iterable[Cohort]) -> dict[CohortId, Any]:
    """Return the definitions of the cohorts that are neither static nor deleted."""
    return {each.id: each.definition for each in cohorts if not (each.is_static or each.deleted)}


def _nested_too_deep() -> CohortTooLarge:
    detail = (
        f"Nested cohorts can have at most {MAX_LEVELS} levels in total, and a cohort cannot "
        "contain itself."
    )
    return CohortTooLarge(detail, "nested_too_deep")


def outline_definition(definition: Any) -> DefinitionOutline:
    """Read a definition, which may be invalid. Stops at the limits."""
    references: dict[CohortId, int] = {}
    nodes = levels = 0
    is_behavioral = False
    pending = [(definition, 1)]
    while pending and nodes <= MAX_NODES:
        node, level = pending.pop()
        nodes += 1
        levels = max(levels, level)
        if not isinstance(node, Mapping):
            continue
        is_behavioral = is_behavioral or node.get("type") == BEHAVIORAL
        id = referenced_cohort(node)
        if id is not None:
            references[id] = max(references.get(id, 0), level)
        values = node.get("values")
        if isinstance(values, list):
            pending += [(each, level + 1) for each in values[: MAX_NODES + 1]]
    return DefinitionOutline(
        nodes=nodes,
        levels=levels,
        size_bytes=_count_bytes(definition),
        references=references,
        is_behavioral=is_behavioral,
    )


def _count_bytes(definition: Any) -> int:
    try:
        return len(jsonio.encode(definition))
    except (TypeError, ValueError, OverflowError, RecursionError):
        return MAX_BYTES + 1


def referenced_cohort(node: Any) -> CohortId | None:
    """Return the cohort that a filter refers to, None for any other filter."""
    if not isinstance(node, Mapping) or node.get("type") not in COHORT_TYPES:
        return None
    value = node.get("value")
    if isinstance(value, bool):
        return None
    try:
        return CohortId(int(value))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None

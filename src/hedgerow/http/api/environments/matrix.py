"""The flags of a product in each environment, and their differences."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from starlette.responses import Response

from hedgerow.errors import Invalid
from hedgerow.experiments.experiments import Experiments
from hedgerow.filters.values import MISSING
from hedgerow.flags.as_code.plan import FlagFieldChange
from hedgerow.flags.environments.matrix import (
    ComparisonQuery,
    FlagDifference,
    FlagMatrix,
    MatrixCell,
    MatrixQuery,
    MatrixRow,
    State,
)
from hedgerow.flags.environments.parts import describe_rollout, find_part
from hedgerow.flags.model import Flag, FlagId
from hedgerow.http.api.environments.access import check_not_empty, find_environment, list_readable
from hedgerow.http.api.environments.products import PRODUCT, ProductFinder
from hedgerow.http.auth.access import anywhere
from hedgerow.http.call import Call
from hedgerow.http.endpoint import endpoint
from hedgerow.http.paging import PAGE_PARAMETERS, Page
from hedgerow.http.parameters import Parameter, parse_boolean, parse_text
from hedgerow.http.server.response import JsonResponse
from hedgerow.lib.clock import format_iso
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import ProjectId

READ_FLAGS = anywhere("feature_flag:read", restricted_keys=True)
MATRIX_PARAMETERS = (
    Parameter("search", "Only flags whose key or name contains this text."),
    Parameter("drifting", "Only flags that differ between environments (true)."),
    Parameter("baseline", "The environment to compare with. Default: the first one."),
)
COMPARE_PARAMETERS = (
    Parameter("from", "The name of the first environment. Default: the first one."),
    Parameter("to", "The name of the second environment. Default: the last one."),
    Parameter("flag", "The key of a flag. Default: all flags that differ."),
)
MIN_ENVIRONMENTS = 2

Experimental = Mapping[ProjectId, Mapping[FlagId, Sequence[int]]]


class FlagCell(msgspec.Struct, kw_only=True):
    """A flag in one environment. `state` is `reference` in the environment with which the others
    are compared, otherwise same, missing or differs; `differs` are the parts that do. The fields of
    a missing flag are null. `experiment_set` are the experiments with this flag."""

    environment: str
    project_id: int
    exists: bool
    flag_id: int | None
    active: bool | None
    archived: bool | None
    rollout: str | None
    version: int | None
    updated_at: str | None
    experiment_set: Sequence[int]
    state: State
    differs: Sequence[str]


class MatrixItem(msgspec.Struct, kw_only=True):
    """A flag in all environments that the caller may read. `drift` says in words how they differ,
    null if they do not."""

    key: str
    name: str
    is_drifting: bool
    drift: str | None
    environments: Sequence[FlagCell]


class FieldDifference(msgspec.Struct, kw_only=True, rename={"source": "from", "target": "to"}):
    """A field that differs, such as filters.groups[0].rollout_percentage. An `added` one exists
    only in `to`, a `removed` one only in `from`."""

    field: str
    part: str
    kind: Literal["added", "removed", "changed"]
    source: Any
    target: Any


class ComparisonItem(msgspec.Struct, kw_only=True):
    """A flag in two environments. A version is null in an environment without the flag."""

    key: str
    state: Literal["same", "differs", "missing"]
    from_version: int | None
    to_version: int | None
    parts: Sequence[str]
    changes: Sequence[FieldDifference]


def render_difference(change: FlagFieldChange) -> FieldDifference:
    kind: Literal["added", "removed", "changed"] = "changed"
    if change.before is MISSING:
        kind = "added"
    elif change.after is MISSING:
        kind = "removed"
    return FieldDifference(
        field=change.field,
        part=find_part(change.field),
        kind=kind,
        source=None if change.before is MISSING else change.before,
        target=None if change.after is MISSING else change.after,
    )


class MatrixEndpoints:
    tag = "Environments"

    def __init__(
        self,
        directory: Directory,
        experiments: Experiments,
        finder: ProductFinder,
        matrix: FlagMatrix,
    ) -> None:
        self._directory = directory
        self._experiments = experiments
        self._finder = finder
        self._matrix = matrix

    @endpoint(
        "GET",
        PRODUCT + "matrix/",
        access=READ_FLAGS,
        response=Page[MatrixItem],
        query=(*PAGE_PARAMETERS, *MATRIX_PARAMETERS),
    )
    async def list_matrix(self, call: Call) -> Response:
        """List the flags of a product by key, each with its state in every environment whose flags
        the caller may read."""
        product = await self._finder.find(call)
        readable = list_readable(call, self._directory, product)
        check_not_empty(readable)
        baseline = parse_text(call.query_param("baseline"), "baseline") or readable[0].name
        reference = find_environment(call, self._directory, product, baseline, "baseline")
        query = MatrixQuery(
            baseline=reference.name,
            search=parse_text(call.query_param("search"), "search").strip()[:200],
            only_drifting=parse_boolean(call.query_param("drifting"), "drifting") or False,
            limit=call.window.limit,
            offset=call.window.offset,
        )
        experiments = {
            each.project.id: await self._experiments.list_ids_by_flag(each.project)
            for each in readable
        }
        items, count = await self._matrix.list_rows(
            readable, query, lambda row: _render_row(row, experiments)
        )
        return JsonResponse(call.page(count, items))

    @endpoint(
        "GET",
        PRODUCT + "compare/",
        access=READ_FLAGS,
        response=Page[ComparisonItem],
        query=(*PAGE_PARAMETERS, *COMPARE_PARAMETERS),
    )
    async def compare_environments(self, call: Call) -> Response:
        """Compare one flag of two environments field by field, or all flags that differ."""
        product = await self._finder.find(call)
        readable = list_readable(call, self._directory, product)
        check_not_empty(readable)
        if len(readable) < MIN_ENVIRONMENTS:
            raise Invalid("You may read one environment of this product. Comparing takes two.")
        chosen = [
            find_environment(
                call,
                self._directory,
                product,
                parse_text(call.query_param(name), name) or default.name,
                name,
            )
            for name, default in (("from", readable[0]), ("to", readable[-1]))
        ]
        query = ComparisonQuery(
            key=parse_text(call.query_param("flag"), "flag") or None,
            limit=call.window.limit,
            offset=call.window.offset,
        )
        items, count = await self._matrix.compare(
            (chosen[0].project, chosen[1].project), query, _render_comparison
        )
        return JsonResponse(call.page(count, items))


def _render_row(row: MatrixRow, experiments: Experimental) -> MatrixItem:
    return MatrixItem(
        key=row.key,
        name=row.name,
        is_drifting=bool(row.drift),
        drift=row.drift or None,
        environments=[_render_cell(each, experiments) for each in row.cells],
    )


def _render_cell(cell: MatrixCell, experiments: Experimental) -> FlagCell:
    flag, project_id = cell.flag, cell.environment.project_id
    return FlagCell(
        environment=cell.environment.name,
        project_id=project_id,
        exists=flag is not None,
        flag_id=None if flag is None else flag.id,
        active=None if flag is None else flag.active,
        archived=None if flag is None else flag.archived,
        rollout=None if flag is None else describe_rollout(flag),
        version=_get_version(flag),
        updated_at=None if flag is None else format_iso(flag.updated_at),
        experiment_set=() if flag is None else experiments[project_id].get(flag.id, ()),
        state=cell.state,
        differs=cell.parts,
    )


def _render_comparison(found: FlagDifference) -> ComparisonItem:
    state: Literal["same", "differs", "missing"] = "differs" if found.parts else "same"
    if found.source is None or found.target is None:
        state = "missing"
    return ComparisonItem(
        key=found.key,
        state=state,
        from_version=_get_version(found.source),
        to_version=_get_version(found.target),
        parts=found.parts,
        changes=[render_difference(each) for each in found.changes],
    )


def _get_version(flag: Flag | None) -> int | None:
    return None if flag is None else flag.version

"""The plan of an import: build it, show it, confirm it and execute it."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hedgerow.cli.importers.target import ImportTarget
from hedgerow.cli.output import colorize, print_json, show_progress
from hedgerow.cli.service_client import (
    check_personal_key,
    load_service_settings,
    resolve_service_url,
    use_stored_login,
)
from hedgerow.errors import AppError, OperatorError
from hedgerow.flags.as_code.plan import FIRST_PROVISIONAL_ID
from hedgerow.importers.matching import (
    MEMBERS_FIELD,
    IdMap,
    ImportAction,
    ImportDecision,
    decide_import,
)
from hedgerow.importers.missing_types import RejectedItems, skip_missing_types
from hedgerow.importers.model import ConversionResult, ImportNote, ResourceKind, SourceId
from hedgerow.lib.clock import utc_now
from hedgerow.lib.text import escape_control_characters
from hedgerow.persons.model import MAX_GROUP_TYPES

if TYPE_CHECKING:
    from hedgerow.cli.importers.rehearsal import ImportRehearsal

KnownIds = Mapping[ResourceKind, Mapping[SourceId, Any]]

TargetProjectOption = Annotated[
    int | None,
    typer.Option(
        "--target-project",
        metavar="ID",
        help="Project id to import into. Required if there are several projects.",
    ),
]
ConfirmOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
OverwriteOption = Annotated[
    bool, typer.Option("--overwrite", help="Change existing items that differ.")
]

UNCONFIRMED = "Nothing was changed: this is the plan. Confirm it with --yes."


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportPlan:
    """`skipped` are items for which the target has no free group type, and items that it would
    reject; `source` has other skipped items. With `overwrite`, existing items that differ are
    changed."""

    source: ConversionResult
    decisions: Sequence[ImportDecision]
    new_types: Sequence[str]
    skipped: Sequence[ImportNote]
    overwrite: bool

    def to_json(self) -> dict[str, Any]:
        counts = Counter((each.item.kind, each.action) for each in self.decisions)
        return {
            "items": [
                {"kind": kind, "action": action, "count": count}
                for (kind, action), count in sorted(counts.items())
            ],
            "group_types": list(self.new_types),
            "skipped": [asdict(each) for each in (*self.skipped, *self.source.skipped)],
            "notes": [asdict(each) for each in self.source.notes],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """What the operator chose: confirmation, dry run, overwriting, output."""

    yes: bool
    dry_run: bool
    overwrite: bool
    as_json: bool

    def approve(self, plan: ImportPlan, heading: str, more: Sequence[str] = ()) -> bool:
        """Show the plan and return whether to execute it. `more` are further lines to show."""
        if self.as_json:
            if self.dry_run:
                print_json({**plan.to_json(), "applied": False})
            elif not self.yes:
                raise OperatorError(
                    "Nothing was changed: --json does not ask. Use --yes or --dry-run."
                )
            return not self.dry_run
        for line in _describe_plan(plan, heading, more):
            print(colorize(escape_control_characters(line), _choose_color(line)))
        if self.dry_run:
            return False
        if self.yes:
            return True
        if not sys.stdin.isatty():
            print(UNCONFIRMED)
            return False
        if not typer.confirm("Execute this plan?"):
            print("Nothing was changed.")
            return False
        return True

    def report(self, plan: ImportPlan, rejected: Sequence[ImportNote], **more: Any) -> None:
        """Print the outcome. Rejected items exit with status 1."""
        if self.as_json:
            notes = [asdict(each) for each in rejected]
            print_json({**plan.to_json(), "applied": True, "rejected": notes, **more})
        else:
            print("Imported.")
            for line in _describe_notes("Rejected:", rejected):
                print(escape_control_characters(line), file=sys.stderr)
        if rejected:
            raise typer.Exit(1)


def open_target(
    server: str | None, key: str | None, project: int | None, kinds: Sequence[ResourceKind]
) -> ImportTarget:
    """Build the target from options and settings."""
    settings = use_stored_login(load_service_settings(server, key))
    check_personal_key(settings, "*")
    return ImportTarget(resolve_service_url(settings), settings.personal_key, project, kinds)


def build_plan(
    source: ConversionResult, target: ImportTarget, known: KnownIds, *, overwrite: bool
) -> ImportPlan:
    """Decide what to do with each item. Items to create get provisional ids."""
    id_map = IdMap()
    types = target.state.group_types
    free = MAX_GROUP_TYPES - len(types)
    new = [name for _, name in sorted(source.group_types.items()) if name not in types]
    text = f"A project has at most {MAX_GROUP_TYPES} group types."
    skipped = [
        ImportNote(kind=ResourceKind.GROUP_TYPE, name=name, text=text) for name in new[free:]
    ]
    unused = sorted(set(range(MAX_GROUP_TYPES)) - set(types.values()))
    indexes = {**types, **dict(zip(new, unused, strict=False))}
    id_map.group_types = {
        index: indexes[name] for index, name in source.group_types.items() if name in indexes
    }
    items, without_type = skip_missing_types(source, id_map.group_types.keys())
    skipped += without_type
    decisions = []
    rejected = RejectedItems()
    assert target.project is not None  # loaded before
    # Loaded on first use: it takes a quarter of a second of CPU, and help pages do not need it.
    module = import_module("hedgerow.cli.importers.rehearsal")
    rehearsal: ImportRehearsal = module.ImportRehearsal(target.project, target.state, utc_now())
    for number, item in enumerate(items):
        decision = decide_import(item, target.state, id_map, known.get(item.kind, {}))
        id = FIRST_PROVISIONAL_ID + number if decision.id is None else decision.id
        reason = rejected.explain_need(item) or rehearsal.explain_rejection(
            decision, id, overwrite=overwrite
        )
        if reason:
            rejected.add(item)
            skipped.append(ImportNote(kind=item.kind, name=item.name, text=reason))
        else:
            id_map.add(item, id)
            decisions.append(decision)
    return ImportPlan(
        source=replace(source, items=[decision.item for decision in decisions]),
        decisions=decisions,
        new_types=new[:free],
        skipped=skipped,
        overwrite=overwrite,
    )


def _choose_color(line: str) -> str | None:
    if line.startswith("  ") and " to create" in line:
        return "green"
    return "yellow" if line.startswith(("Existing", "Skipped", "Imported with")) else None


def _describe_plan(plan: ImportPlan, heading: str, more: Sequence[str]) -> Iterator[str]:
    overwrite = plan.overwrite
    yield heading
    if plan.source.group_types:
        without_space = sum(each.kind is ResourceKind.GROUP_TYPE for each in plan.skipped)
        existing = len(plan.source.group_types) - len(plan.new_types) - without_space
        counts = len(plan.new_types), existing, 0
        yield _describe_counts(ResourceKind.GROUP_TYPE, *counts, overwrite=overwrite)
    for kind in ResourceKind:
        actions = Counter(each.action for each in plan.decisions if each.item.kind is kind)
        if actions:
            counts = (
                actions[ImportAction.CREATE],
                actions[ImportAction.SAME],
                actions[ImportAction.DIFFERS],
            )
            yield _describe_counts(kind, *counts, overwrite=overwrite)
    yield from (f"  {line}" for line in more)
    differing = [each for each in plan.decisions if each.action is ImportAction.DIFFERS]
    if differing:
        yield (
            "Existing items to change:"
            if overwrite
            else "Existing items that differ and stay. --overwrite changes them:"
        )
        for each in differing:
            yield f"  {each.item.kind} {each.item.name}: {', '.join(each.differences)}"
    yield from _describe_notes("Skipped:", [*plan.skipped, *plan.source.skipped])
    yield from _describe_notes("Imported with differences:", plan.source.notes)


def _describe_counts(
    kind: ResourceKind, new: int, same: int, differing: int, *, overwrite: bool
) -> str:
    parts = [f"{new} to create"] if new else []
    parts += [f"{same} unchanged"] if same else []
    parts += [f"{differing} to change" if overwrite else f"{differing} differ"] if differing else []
    return f"  {kind}s: {', '.join(parts)}"


def _describe_notes(heading: str, notes: Sequence[ImportNote]) -> Iterator[str]:
    if notes:
        yield heading
    for each in notes:
        yield f"  {each.kind} {each.name}: {each.text}"


def execute_plan(
    plan: ImportPlan,
    target: ImportTarget,
    known: Mapping[ResourceKind, dict[Any, Any]],
    save: Callable[[], None] = lambda: None,
) -> tuple[IdMap, list[ImportNote]]:
    """Create and change the items. Returns the ids of all items, and the rejected items.

    `known` gets each id as soon as the item exists, followed by `save`, so that an interrupted run
    creates nothing twice. It does not get static cohorts whose members someone else added.
    """
    id_map = IdMap()
    for index, name in plan.source.group_types.items():
        if name in target.state.group_types or name in plan.new_types:
            id_map.group_types[index] = target.create_group_type(name)
    rejected: list[ImportNote] = []
    with show_progress() as progress:
        bar = progress.add_bar("definitions", len(plan.decisions))
        for decision in plan.decisions:
            item = decision.item
            try:
                first = target.apply(
                    item, id_map, known.get(item.kind, {}), overwrite=plan.overwrite
                )
            except AppError as error:
                field = f"{error.attr}: " if error.attr else ""
                text = f"{field}{error.detail}"
                rejected.append(ImportNote(kind=item.kind, name=item.name, text=text))
            else:
                is_ours = plan.overwrite or MEMBERS_FIELD not in first.differences
                if item.kind in known and is_ours:
                    known[item.kind][item.source_id] = id_map.ids[item.kind][item.source_id]
                    save()
            bar.advance()
    return id_map, rejected

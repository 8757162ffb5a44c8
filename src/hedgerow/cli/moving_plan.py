"""A move, first as a plan that people read, then carried out: definitions one after the other."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from hedgerow.cli.moving_target import Target
from hedgerow.errors import AppError
from hedgerow.importers.lacking import without_lacking
from hedgerow.importers.matching import MEMBERS, UNMADE, Action, Decision, Numbers, decided
from hedgerow.importers.model import Kind, Reading, SourceId, Told
from hedgerow.lib.text import on_one_line
from hedgerow.persons.model import MAX_GROUP_TYPES

Known = Mapping[Kind, Mapping[SourceId, Any]]

NOBODY_ASKED = "Nothing was changed: this is the plan. Say --yes to carry it out."


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`lost` is what there is no room for here; the reading has its own. With `overwrite`, what
    differs here is made as there."""

    reading: Reading
    decisions: Sequence[Decision]
    new_types: Sequence[str]
    lost: Sequence[Told]
    overwrite: bool


def planned(reading: Reading, target: Target, known: Known, *, overwrite: bool) -> Plan:
    """What would be done. Numbers that nothing has yet stand for what would be made."""
    numbers = Numbers()
    types = target.there.group_types
    room = MAX_GROUP_TYPES - len(types)
    new = [name for _, name in sorted(reading.group_types.items()) if name not in types]
    lost = [
        Told(kind=Kind.GROUP_TYPE, name=name, text=f"There is room for {MAX_GROUP_TYPES} here.")
        for name in new[room:]
    ]
    numbers.group_types = {
        index: types.get(name, UNMADE)
        for index, name in reading.group_types.items()
        if name not in new[room:]
    }
    wanted_here, lacking = without_lacking(reading, numbers.group_types.keys())
    reading = replace(reading, wanted=wanted_here)
    decisions = []
    for number, wanted in enumerate(reading.wanted):
        decision = decided(wanted, target.there, numbers, known.get(wanted.kind, {}))
        numbers.learn(wanted, UNMADE - 1 - number if decision.id is None else decision.id)
        decisions.append(decision)
    return Plan(
        reading=reading,
        decisions=decisions,
        new_types=new[:room],
        lost=[*lost, *lacking],
        overwrite=overwrite,
    )


def show(plan: Plan, heading: str, more: Sequence[str]) -> None:
    """`more` are lines about what is no definition."""
    for line in _lines(plan, heading, more):
        print(on_one_line(line))


def _lines(plan: Plan, heading: str, more: Sequence[str]) -> Iterator[str]:
    overwrite = plan.overwrite
    yield heading
    if plan.reading.group_types:
        roomless = sum(each.kind is Kind.GROUP_TYPE for each in plan.lost)
        there = len(plan.reading.group_types) - len(plan.new_types) - roomless
        yield _count_line(Kind.GROUP_TYPE, len(plan.new_types), there, 0, overwrite=overwrite)
    for kind in Kind:
        counts = Counter(each.action for each in plan.decisions if each.wanted.kind is kind)
        if counts:
            numbers = counts[Action.CREATE], counts[Action.SAME], counts[Action.DIFFERS]
            yield _count_line(kind, *numbers, overwrite=overwrite)
    yield from (f"  {line}" for line in more)
    differing = [each for each in plan.decisions if each.action is Action.DIFFERS]
    if differing:
        yield (
            "Different here, and made as there:"
            if overwrite
            else "Different here, and left as they are. --overwrite makes them as there:"
        )
        for each in differing:
            yield f"  {each.wanted.kind} {each.wanted.name}: {', '.join(each.differences)}"
    yield from _told_lines("Cannot be copied:", [*plan.lost, *plan.reading.lost])
    yield from _told_lines("Copied, and yet not the same:", plan.reading.notes)


def _count_line(kind: Kind, new: int, same: int, differing: int, *, overwrite: bool) -> str:
    parts = [f"{new} to make"] if new else []
    parts += [f"{same} here already"] if same else []
    parts += [f"{differing} to change" if overwrite else f"{differing} differ"] if differing else []
    return f"  {kind}s: {', '.join(parts)}"


def _told_lines(heading: str, told: Sequence[Told]) -> Iterator[str]:
    if told:
        yield heading
    for each in told:
        yield f"  {each.kind} {each.name}: {each.text}"


def is_wished(*, yes: bool, dry_run: bool) -> bool:
    """Whether the plan that was shown is to be carried out."""
    if dry_run:
        return False
    if yes:
        return True
    if not sys.stdin.isatty():
        print(NOBODY_ASKED)
        return False
    if not typer.confirm("Carry this out?"):
        print("Nothing was changed.")
        return False
    return True


def carried_out(
    plan: Plan,
    target: Target,
    known: Mapping[Kind, dict[Any, Any]],
    keep: Callable[[], None] = lambda: None,
) -> tuple[Numbers, list[Told]]:
    """The numbers of everything, and what was refused after all. `known` learns at once what an
    interruption must not make twice, and is kept; a list of members that somebody else made is
    theirs."""
    numbers = Numbers()
    for index, name in plan.reading.group_types.items():
        if name in target.there.group_types or name in plan.new_types:
            numbers.group_types[index] = target.group_type(name)
    refused: list[Told] = []
    with progress() as bar:
        task = bar.add_task("definitions", total=len(plan.decisions))
        for each in plan.decisions:
            wanted = each.wanted
            try:
                numbered = known.get(wanted.kind, {})
                done = target.have(wanted, numbers, numbered, overwrite=plan.overwrite)
            except AppError as error:
                place = f"{error.attr}: " if error.attr else ""
                text = f"{place}{error.detail}"
                refused.append(Told(kind=wanted.kind, name=wanted.name, text=text))
            else:
                if wanted.kind in known and (plan.overwrite or MEMBERS not in done.differences):
                    known[wanted.kind][wanted.source_id] = numbers.of[wanted.kind][wanted.source_id]
                    keep()
            bar.advance(task)
    return numbers, refused


def tell_refused(refused: Sequence[Told]) -> None:
    """What was not carried out is a reason not to end well."""
    for line in _told_lines("Refused:", refused):
        print(on_one_line(line), file=sys.stderr)
    if refused:
        raise typer.Exit(1)


def progress() -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
    )

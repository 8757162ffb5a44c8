"""`hedgerow import posthog`: a project of PostHog, or of another Hedgerow, copied into this one."""

import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC
from pathlib import Path
from typing import Annotated, Any

import typer

from hedgerow.cli.moving_history import History, told_lines
from hedgerow.cli.moving_plan import (
    Plan,
    carried_out,
    is_wished,
    planned,
    progress,
    show,
    tell_refused,
)
from hedgerow.cli.moving_source import Source
from hedgerow.cli.moving_target import Target
from hedgerow.cli.running import ServerOption, address, service_settings
from hedgerow.errors import Unready
from hedgerow.events.dates import asked_moment
from hedgerow.importers.matching import Numbers
from hedgerow.importers.model import Kind, Reading
from hedgerow.importers.posthog import understood
from hedgerow.lib.clock import utc_now
from hedgerow.lib.text import on_one_line
from hedgerow.storage.moving_ledger import LedgerFile

KINDS = (Kind.COHORT, Kind.FLAG, Kind.FEATURE, Kind.SURVEY, Kind.EXPERIMENT)
TargetKeyOption = Annotated[
    str | None,
    typer.Option(
        "--key",
        metavar="KEY",
        help="A personal key of this service with the scope * [env HEDGEROW_PERSONAL_KEY].",
    ),
]
IntoOption = Annotated[
    int | None, typer.Option("--into", help="The project here, by id; else the key's first one.")
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Carry the plan out; do not ask.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show the plan, and do nothing.")]
OverwriteOption = Annotated[
    bool, typer.Option("--overwrite", help="Change what is here already and differs.")
]


def import_posthog(  # noqa: PLR0913 - the options of a verb
    host: Annotated[
        str, typer.Option(metavar="URL", help="Where it is, such as https://eu.posthog.com.")
    ],
    project: Annotated[str, typer.Option(metavar="ID", help="The project's number there.")],
    personal_key: Annotated[
        str,
        typer.Option(
            metavar="KEY",
            envvar="POSTHOG_PERSONAL_API_KEY",
            show_envvar=False,
            help="A personal API key of there that may read [env POSTHOG_PERSONAL_API_KEY].",
        ),
    ],
    persons: Annotated[
        bool, typer.Option("--persons", help="All persons too: ids and properties.")
    ] = False,
    events: Annotated[bool, typer.Option("--events", help="All events too.")] = False,
    since: Annotated[
        str, typer.Option(help="Events from this moment on only: 2026-01-31 (UTC) or -30d.")
    ] = "",
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    overwrite: OverwriteOption = False,
    state: Annotated[
        Path | None,
        typer.Option(help="Where to remember how far it came. Else a file in this folder."),
    ] = None,
    into: IntoOption = None,
    server: ServerOption = None,
    key: TargetKeyOption = None,
) -> None:
    """Copy all definitions of a PostHog project, and its groups, persons and events.

    Definitions are flags, cohorts, early access features, surveys and experiments. A plan comes
    first: how many of what, what is here already, and by name what cannot be copied and why. On a
    terminal it then asks; elsewhere it needs --yes.

    Stop it as you like: the same command goes on where it was, and makes nothing twice.

    Example: hedgerow import posthog --host https://eu.posthog.com --project 12345 --persons
    """
    if since and not events:
        raise Unready("--since is about events: say --events too.")
    if since:
        asked_moment(since, utc_now(), UTC, "--since")
    target = target_of(server, key, into, KINDS)
    with Source(host, personal_key, project) as source:
        reading = understood(source.definitions())
        target.look()
        path = state or Path(f"hedgerow-import-{_slug(source.name)}.json")
        file = LedgerFile(path, source.name, target.name)
        plan = planned(reading, target, _known(file), overwrite=overwrite)
        sizes = _sizes(source, reading, persons=persons, events=events, since=since)
        heading = f"From {source.name} into {target.name}:"
        show(plan, heading, _size_lines(reading, sizes))
        if not is_wished(yes=yes, dry_run=dry_run):
            return
        try:
            _move(plan, source, target, file, sizes, since)
        except KeyboardInterrupt:
            file.keep()
            print("Stopped. The same command goes on from here.", file=sys.stderr)
            raise typer.Exit(130) from None


def target_of(
    server: str | None, key: str | None, into: int | None, kinds: Sequence[Kind]
) -> Target:
    """The project of here that the options say."""
    settings = service_settings(server, key)
    if not settings.personal_key:
        raise Unready("Say with which key to write here: --key, or HEDGEROW_PERSONAL_KEY.")
    return Target(address(settings), settings.personal_key, into, kinds)


def _known(file: LedgerFile) -> dict[Kind, dict[Any, Any]]:
    """What earlier runs gave which number."""
    return {
        Kind.COHORT: file.ledger.cohorts,
        Kind.SURVEY: file.ledger.surveys,
        Kind.EXPERIMENT: file.ledger.experiments,
    }


# How many there are of what is copied page by page; None if the source does not say.
Sizes = dict[str, int | None]


def _sizes(source: Source, reading: Reading, *, persons: bool, events: bool, since: str) -> Sizes:
    found: Sizes = {}
    for index, name in reading.group_types.items():
        found[name] = source.number("groups/", group_type_index=index)
    if events:
        moment = asked_moment(since, utc_now(), UTC, "--since") if since else None
        where = f" WHERE timestamp >= toDateTime('{moment:%Y-%m-%d %H:%M:%S}')" if moment else ""
        found["events"] = source.counted(f"SELECT count() FROM events{where}")  # noqa: S608
    if persons:
        found["persons"] = source.number("persons/")
    return found


def _size_lines(reading: Reading, sizes: Sizes) -> list[str]:
    lines = [
        f"groups of type {name}: {_shown(sizes[name])}" for name in reading.group_types.values()
    ]
    for name in ("events", "persons"):
        said = f"{_shown(sizes[name])}" if name in sizes else f"not asked for (--{name})"
        lines.append(f"{name}: {said}")
    if _static(reading) and "persons" not in sizes:
        lines.append("persons who are members of static cohorts come with them, with the ids that")
        lines.append("the source tells there: PostHog up to 10 each, --persons brings all")
    return lines


def _shown(number: int | None) -> str:
    return "all there are" if number is None else f"{number:,}"


def _static(reading: Reading) -> list[tuple[int, str]]:
    return [
        (int(each.source_id), each.name)
        for each in reading.wanted
        if each.kind is Kind.COHORT and each.body["is_static"]
    ]


def _move(
    plan: Plan,
    source: Source,
    target: Target,
    file: LedgerFile,
    sizes: Sizes,
    since: str,
) -> None:
    numbers, refused = carried_out(plan, target, _known(file), file.keep)
    file.keep()
    with progress() as bar:
        history = History(source, target, file, bar, numbers)
        _history(history, plan.reading, numbers, file.ledger.cohorts, sizes, since)
    for line in told_lines(history):
        print(on_one_line(line), file=sys.stderr)
    print("Copied.")
    tell_refused(refused)
    if not history.is_whole:
        raise typer.Exit(1)


def _history(
    history: History,
    reading: Reading,
    numbers: Numbers,
    own_cohorts: Mapping[int, int],
    sizes: Sizes,
    since: str,
) -> None:
    """Events before persons and groups: these say how everything ended."""
    if "events" in sizes:
        history.events(since, sizes["events"])
    for index, name in reading.group_types.items():
        if index in numbers.group_types:
            history.groups(index, name, sizes[name])
    if "persons" in sizes:
        history.persons(sizes["persons"])
    for cohort, name in _static(reading):
        own_id = own_cohorts.get(cohort)
        if own_id is not None and own_id == numbers.of[Kind.COHORT].get(cohort):
            history.members(cohort, own_id, name, send="persons" not in sizes)


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", text.partition("://")[2]).strip("-")

"""`hedgerow import`: the rows of files, sent to the running service as events."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from secrets import token_bytes
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from hedgerow.cli.options import settings_with
from hedgerow.cli.running import ServerOption, Service, address, insisted
from hedgerow.errors import Invalid, Unready
from hedgerow.ingestion.imported import checked
from hedgerow.lib.clock import utc_now
from hedgerow.lib.ids import UUID7_RANDOM_BYTES
from hedgerow.pipelines.imports.mapping import check_mapping, mapped_by
from hedgerow.pipelines.imports.model import BadRow
from hedgerow.pipelines.imports.rows import Portion, format_of, portions
from hedgerow.pipelines.model import JobProblem

TOLD = 20


class Form(StrEnum):
    AUTO = "auto"
    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"


@dataclass(slots=True)
class Tally:
    good: int = 0
    bad: int = 0
    told: list[BadRow] = field(default_factory=list)

    def refuse(self, rows: Sequence[BadRow]) -> None:
        self.bad += len(rows)
        self.told += rows[: TOLD - len(self.told)]


def import_files(  # noqa: PLR0913 - the options of a verb
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="The files, one or more.")],
    maps: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="FIELD=COLUMN",
            help="Which column is the event, distinct_id, timestamp, uuid or properties.NAME; "
            "FIELD==TEXT for a constant.",
        ),
    ] = None,
    form: Annotated[
        Form, typer.Option("--format", "-f", help="The kind of files; auto: by their names.")
    ] = Form.AUTO,
    rest: Annotated[
        bool | None,
        typer.Option("--rest/--no-rest", help="Whether all other columns become properties."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check all rows and show the first; send nothing.")
    ] = False,
    from_line: Annotated[
        int, typer.Option(min=1, help="Leave out what lies before this line of the first file.")
    ] = 1,
    key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="The project's key [env HEDGEROW_PROJECT_KEY]."),
    ] = None,
    server: ServerOption = None,
) -> None:
    """Send the rows of CSV, JSON lines or Parquet files to the running service as events.

    Each row is stored once, however often it is sent: stop it and call it again as you like.

    Example: hedgerow import orders.csv --map event==ordered --map distinct_id=customer
    """
    settings = settings_with(server_url=server, project_key=key)
    if not (settings.project_key or dry_run):
        raise Unready(
            "Say for which project: --key, or HEDGEROW_PROJECT_KEY. `hedgerow projects list` "
            "shows the keys."
        )
    service = None if dry_run else Service(address(settings), "")
    sender = Sender(mapping_of(maps or (), rest), service, settings.project_key)
    formats = [_format(file, form) for file in files]
    with _progress(files) as progress:
        for file, format in zip(files, formats, strict=True):
            _send(file, format, from_line if file is files[0] else 1, sender, progress)
    _tell(sender.tally, dry_run)


class Sender:
    """Maps, checks and sends rows; without a service it sends nothing."""

    def __init__(
        self, mapping: Mapping[str, Any], service: Service | None, project_key: str
    ) -> None:
        self._to_event = mapped_by(mapping)
        self._service = service
        self._project_key = project_key
        self.tally = Tally()

    def send(self, portion: Portion) -> None:
        events = [self._to_event(row) for row in portion.rows]
        _, refused = checked(events, utc_now(), token_bytes(UUID7_RANDOM_BYTES))
        good = [event for at, event in enumerate(events) if at not in refused]
        if good and self._service is None and not self.tally.good:
            Console().print_json(data=good[0])
        if good and (service := self._service) is not None:
            told = insisted(lambda: service.capture(self._project_key, good))
            self.tally.refuse([BadRow(place="The service", reason=why) for why in told])
            self.tally.good -= len(told)
        self.tally.good += len(good)
        self.tally.refuse(portion.bad)
        self.tally.refuse(
            [BadRow(place=portion.rows[at].place, reason=why) for at, why in refused.items()]
        )


def mapping_of(maps: Iterable[str], rest: bool | None) -> dict[str, Any]:
    """What the options say, as a record's setting has it."""
    mapping: dict[str, Any] = {} if rest is None else {"rest": rest}
    for text in maps:
        name, equals, column = text.partition("=")
        if not (name and equals and column):
            raise Invalid(f"{text}: FIELD=COLUMN or FIELD==TEXT is required.", attr="--map")
        if name.startswith("properties."):
            properties = mapping.setdefault("properties", {})
            properties[name.removeprefix("properties.")] = column
        else:
            mapping[name] = column
    check_mapping(mapping)
    return mapping


def _format(file: Path, form: Form) -> str:
    format = format_of(file.name, form.value)
    if format is None:
        raise Unready(f"{file}: say of which kind it is, with --format csv, jsonl or parquet.")
    if not file.is_file():
        raise Unready(f"{file} is no file.")
    return format


def _send(file: Path, format: str, from_line: int, sender: Sender, progress: Progress) -> None:
    (task,) = progress.task_ids
    before = progress.tasks[0].completed
    line = from_line
    try:
        with file.open("rb") as opened:
            for portion in portions(opened, format, file.name, None):
                if portion.position["line"] >= from_line:
                    sender.send(portion)
                    line = portion.position["line"] + 1
                progress.update(task, completed=before + opened.tell())
    except JobProblem as problem:
        raise Unready(str(problem)) from None
    except OSError as error:
        raise Unready(f"{file} cannot be read: {error.strerror}.") from None
    except (KeyboardInterrupt, Unready) as stopped:
        print(
            f"{file}: stopped before line {line}. The same command goes on, the sooner with "
            f"--from-line {line}.",
            file=sys.stderr,
        )
        if isinstance(stopped, Unready):
            raise
        raise typer.Exit(130) from None
    progress.update(task, completed=before + file.stat().st_size)


def _progress(files: Sequence[Path]) -> Progress:
    progress = Progress(
        TextColumn("rows"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
    )
    progress.add_task("rows", total=sum(file.stat().st_size for file in files))
    return progress


def _tell(tally: Tally, dry_run: bool) -> None:
    """What became of all rows. Bad ones are a reason not to end well."""
    print(f"{tally.good} row(s) {'can be sent' if dry_run else 'sent'}, {tally.bad} bad.")
    for row in tally.told:
        print(f"  {row.place}: {row.reason}", file=sys.stderr)
    if tally.bad > len(tally.told):
        print(f"  … and {tally.bad - len(tally.told)} more.", file=sys.stderr)
    if tally.bad:
        raise typer.Exit(1)

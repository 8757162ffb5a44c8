"""`hedgerow import files`: send the rows of files to the running service as events."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from secrets import token_bytes
from typing import Annotated, Any

import typer

from hedgerow.cli.options import (
    DryRunOption,
    JsonOption,
    ProjectOption,
    ServerOption,
    load_command_settings,
)
from hedgerow.cli.output import ProgressBar, print_json, show_progress
from hedgerow.cli.service_client import (
    ServiceClient,
    resolve_service_url,
    use_stored_login,
    with_retries,
)
from hedgerow.errors import Invalid, OperatorError
from hedgerow.ingestion.import_events import parse_import
from hedgerow.lib.clock import utc_now
from hedgerow.lib.ids import UUID7_RANDOM_BYTES
from hedgerow.pipelines.imports.file_rows import read_batches
from hedgerow.pipelines.imports.mapping import (
    EXTRA_COLUMNS,
    check_mapping,
    compile_mapping,
)
from hedgerow.pipelines.imports.rows import FileBatch, detect_format
from hedgerow.plugin.imports import BadRow, JobError
from hedgerow.settings import Settings

MAX_BAD_ROWS_SHOWN = 20


class ImportFormat(StrEnum):
    AUTO = "auto"
    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"


@dataclass(slots=True)
class RowCounts:
    """Rows sent and rejected, with the first of the rejected ones."""

    good: int = 0
    bad: int = 0
    examples: list[BadRow] = field(default_factory=list)
    first_event: Mapping[str, Any] | None = None

    def reject(self, rows: Sequence[BadRow]) -> None:
        self.bad += len(rows)
        self.examples += rows[: MAX_BAD_ROWS_SHOWN - len(self.examples)]


def import_files(  # noqa: PLR0913 - the options of a command
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="One or more files.")],
    maps: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="FIELD=COLUMN",
            help="Column for event, distinct_id, timestamp, uuid or properties.NAME; FIELD==TEXT "
            "for a constant. Repeatable.",
        ),
    ] = None,
    format: Annotated[
        ImportFormat,
        typer.Option("--format", "-f", help="Format of the files; auto: by their names."),
    ] = ImportFormat.AUTO,
    extra_columns: Annotated[
        bool | None,
        typer.Option(
            "--extra-columns/--no-extra-columns",
            help="Whether all other columns become properties.",
        ),
    ] = None,
    dry_run: DryRunOption = False,
    from_line: Annotated[
        int, typer.Option(min=1, help="Skip the lines before this one of the first file.")
    ] = 1,
    project_key: Annotated[
        str | None,
        typer.Option(
            metavar="KEY", help="Project key to send events with [env HEDGEROW_PROJECT_KEY]."
        ),
    ] = None,
    project: ProjectOption = None,
    server: ServerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send the rows of CSV, JSON Lines or Parquet files to the service as events.

    A row that is sent twice is stored once, so you can stop the command and run it again. Without a
    project key, the command asks the service for it: that needs `hedgerow login`, or
    HEDGEROW_PERSONAL_KEY with the scope project:read.

    Example: hedgerow import orders.csv --map event==ordered --map distinct_id=customer
    """
    settings = use_stored_login(load_command_settings(server_url=server, project_key=project_key))
    mapping = build_mapping(maps or (), extra_columns)
    service = None if dry_run else ServiceClient(resolve_service_url(settings), "")
    sender = RowSender(mapping, service, "" if dry_run else _find_project_key(settings, project))
    formats = [_check_file(file, format) for file in files]
    with show_progress(counts_bytes=True) as progress:
        bar = progress.add_bar("bytes read", sum(file.stat().st_size for file in files))
        done = 0
        for file, file_format in zip(files, formats, strict=True):
            first_line = from_line if file is files[0] else 1
            _send_file(file, file_format, first_line, sender, bar, done)
            done += file.stat().st_size
    _report(sender.counts, dry_run=dry_run, as_json=as_json)


def _find_project_key(settings: Settings, project: int | None) -> str:
    if settings.project_key:
        return settings.project_key
    if not settings.personal_key:
        raise OperatorError(
            "The command needs the key of the project: use --project-key or HEDGEROW_PROJECT_KEY. "
            "`hedgerow projects list` shows the keys."
        )
    service = ServiceClient(resolve_service_url(settings), settings.personal_key, project)
    key: str = service.request("GET", "")["api_token"]
    return key


class RowSender:
    """Maps, checks and sends rows. Without a service it only checks them."""

    def __init__(
        self, mapping: Mapping[str, Any], service: ServiceClient | None, project_key: str
    ) -> None:
        self._to_event = compile_mapping(mapping)
        self._service = service
        self._project_key = project_key
        self.counts = RowCounts()

    def send(self, batch: FileBatch) -> None:
        events = [self._to_event(row) for row in batch.rows]
        _, invalid = parse_import(events, utc_now(), token_bytes(UUID7_RANDOM_BYTES))
        good = [event for index, event in enumerate(events) if index not in invalid]
        counts = self.counts
        if good and counts.first_event is None:
            counts.first_event = good[0]
        if good and (service := self._service) is not None:
            rejected = with_retries(lambda: service.capture(self._project_key, good))
            counts.reject([BadRow(location="The service", reason=reason) for reason in rejected])
            counts.good -= len(rejected)
        counts.good += len(good)
        counts.reject(batch.bad)
        counts.reject(
            [
                BadRow(location=batch.rows[index].location, reason=reason)
                for index, reason in invalid.items()
            ]
        )


def build_mapping(maps: Iterable[str], extra_columns: bool | None) -> dict[str, Any]:
    """Build the mapping setting of an import app from options."""
    mapping: dict[str, Any] = {} if extra_columns is None else {EXTRA_COLUMNS: extra_columns}
    for text in maps:
        name, equals, column = text.partition("=")
        if not (name and equals and column):
            raise Invalid(f"{text}: expected FIELD=COLUMN or FIELD==TEXT.", attr="--map")
        if name.startswith("properties."):
            properties = mapping.setdefault("properties", {})
            properties[name.removeprefix("properties.")] = column
        else:
            mapping[name] = column
    check_mapping(mapping)
    return mapping


def _check_file(file: Path, format: ImportFormat) -> str:
    detected = detect_format(file.name, format.value)
    if detected is None:
        raise OperatorError(
            f"{file}: its name does not show the format. Use --format csv, jsonl or parquet."
        )
    if not file.is_file():
        raise OperatorError(f"{file} is not a file.")
    return detected


def _send_file(
    file: Path, format: str, from_line: int, sender: RowSender, bar: ProgressBar, done: int
) -> None:
    line = from_line
    try:
        with file.open("rb") as opened:
            for batch in read_batches(opened, format, file.name, None):
                if batch.position["line"] >= from_line:
                    sender.send(batch)
                    line = batch.position["line"] + 1
                bar.move_to(done + opened.tell())
    except JobError as error:
        raise OperatorError(str(error)) from None
    except OSError as error:
        raise OperatorError(f"{file} cannot be read: {error.strerror}.") from None
    except (KeyboardInterrupt, OperatorError) as stop:
        print(
            f"{file}: stopped before line {line}. Run the same command to continue, or skip the "
            f"lines that are sent with --from-line {line}.",
            file=sys.stderr,
        )
        if isinstance(stop, OperatorError):
            raise
        raise typer.Exit(130) from None
    bar.move_to(done + file.stat().st_size)


def _report(counts: RowCounts, *, dry_run: bool, as_json: bool) -> None:
    """Print the counts. Bad rows exit with status 1."""
    if as_json:
        print_json(
            {
                "rows": counts.good,
                "bad": counts.bad,
                "sent": not dry_run,
                "first_event": counts.first_event if dry_run else None,
                "errors": [asdict(row) for row in counts.examples],
            }
        )
    else:
        if dry_run and counts.first_event is not None:
            print_json(counts.first_event)
        outcome = "can be sent" if dry_run else "sent"
        print(f"{counts.good} row(s) {outcome}, {counts.bad} bad.")
        for row in counts.examples:
            print(f"  {row.location}: {row.reason}", file=sys.stderr)
        if counts.bad > len(counts.examples):
            print(f"  … and {counts.bad - len(counts.examples)} more.", file=sys.stderr)
    if counts.bad:
        raise typer.Exit(1)

"""Name resolution in one SELECT."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from hedgerow.hogql.ast import Cte
from hedgerow.hogql.errors import HogQLError, did_you_mean, quote
from hedgerow.hogql.printer.context import PrinterState
from hedgerow.hogql.printer.sources import Link, StoredTable, TableSource, descend
from hedgerow.hogql.tables import TABLES
from hedgerow.hogql.typed_sql import TypedSql
from hedgerow.hogql.views import VIEWS

MAX_NAMES = 50


@dataclass(frozen=True, slots=True)
class ScopedCte:
    """A CTE and the CTEs that it can use: those defined before it."""

    cte: Cte
    visible: "CteScope"


CteScope = Mapping[str, ScopedCte]


def extend_ctes(outer: CteScope, ctes: Mapping[str, Cte]) -> CteScope:
    """Return the outer CTEs and those of one WITH, which shadow outer ones."""
    visible = dict(outer)
    for name, cte in ctes.items():
        visible = {**visible, name: ScopedCte(cte, visible)}
        if len(visible) > MAX_NAMES:
            raise HogQLError(f"WITH defines more than {MAX_NAMES} names", start=cte.start)
    return visible


@dataclass
class SelectScope:
    """The names of one SELECT. `values` are the CTEs that stand for an expression and are used
    here."""

    state: PrinterState
    ctes: CteScope
    sources: dict[str, TableSource] = field(default_factory=dict)
    aliases: dict[str, TypedSql] = field(default_factory=dict)
    arrays: dict[str, TypedSql] = field(default_factory=dict)
    values: dict[str, tuple[str, TypedSql]] = field(default_factory=dict)
    windows: dict[str, str] = field(default_factory=dict)
    _arguments: list[dict[str, TypedSql]] = field(default_factory=list)
    # Columns of USING, which belong to both tables.
    using_columns: set[str] = field(default_factory=set)

    @contextmanager
    def bind_arguments(self, names: Sequence[str]) -> Iterator[list[str]]:
        """Bind the arguments of a lambda, which shadow all other names."""
        given = [self.state.new_name("x") for _ in names]
        self._arguments.append(
            {name: TypedSql(ours) for name, ours in zip(names, given, strict=True)}
        )
        yield given
        self._arguments.pop()

    def add(self, name: str, source: TableSource, start: int | None) -> None:
        if name in self.sources:
            raise HogQLError(
                f"Two tables are named {quote(name)}",
                start=start,
                hint="Give one of them an alias.",
            )
        self.sources[name] = source

    def resolve_local(self, chain: Sequence[Link]) -> TypedSql | None:
        """Resolve a lambda argument, an alias or an ARRAY JOIN name."""
        first = str(chain[0])
        for arguments in reversed(self._arguments):
            if first in arguments:
                return descend(self.state, arguments[first], chain[1:])
        if len(chain) > 1 and first in self.sources:
            return None
        for names in (self.aliases, self.arrays):
            if first in names:
                return descend(self.state, names[first], chain[1:])
        return None

    def resolve_column(self, chain: Sequence[Link], start: int | None) -> TypedSql:
        """Resolve a column of one of the tables."""
        first = str(chain[0])
        if len(chain) > 1 and first in self.sources:
            piece = self.sources[first].resolve_field(chain[1:])
            if piece is None:
                raise self._unknown_field_error(chain, [first], start)
            return piece
        found = [
            piece
            for source in self.sources.values()
            if (piece := source.resolve_field(chain)) is not None
        ]
        if not found:
            raise self._unknown_field_error(chain, list(self.sources), start)
        if len(found) > 1 and first not in self.using_columns:
            raise HogQLError(
                f"Ambiguous field {quote(first)}: it is in more than one table",
                start=start,
                hint="Put the name or alias of the table before it.",
            )
        return found[0]

    def find_events(self, chain: Sequence[Link]) -> tuple[StoredTable, Sequence[Link]] | None:
        """Return the events table that the chain refers to, if it is read directly, and the rest of
        the chain."""
        if self.resolve_local(chain) is not None or str(chain[0]) in self.ctes:
            return None
        named = self.sources.get(str(chain[0])) if len(chain) > 1 else None
        if named is None and len(self.sources) != 1:
            return None
        found = named or next(iter(self.sources.values()))
        if not isinstance(found, StoredTable) or not found.is_events:
            return None
        return found, chain[1:] if named else chain

    def find_events_name(self) -> str | None:
        """Return the name of the events table that the query reads directly, if it is the only
        one."""
        found = [
            name
            for name, source in self.sources.items()
            if isinstance(source, StoredTable) and source.is_events
        ]
        return found[0] if len(found) == 1 else None

    def _unknown_field_error(
        self, chain: Sequence[Link], tables: list[str], start: int | None
    ) -> HogQLError:
        name = ".".join(str(link) for link in chain)
        known = [name for table in tables for name in self.sources[table].column_names()]
        missing = str(chain[1]) if len(chain) > 1 and str(chain[0]) in tables else str(chain[0])
        if not self.sources:
            hint = "The query has no FROM."
        elif missing in known:
            hint = f"{quote(missing)} has no such field. Name one of its fields."
        else:
            hint = did_you_mean(missing, [*known, *self.aliases, *tables])
        return HogQLError(f"Unknown field {quote(name)}", start=start, hint=hint)


def unknown_table_error(name: str, ctes: CteScope, start: int | None) -> HogQLError:
    known = [*TABLES, *VIEWS]
    hint = did_you_mean(name, [*known, *ctes]) or f"Expected one of: {', '.join(known)}."
    return HogQLError(f"Unknown table {quote(name)}", start=start, hint=hint)

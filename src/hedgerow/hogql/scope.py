"""What names mean at one place of a query."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from hedgerow.hogql.ast import Cte
from hedgerow.hogql.context import Context
from hedgerow.hogql.errors import HogQLError, did_you_mean, shown
from hedgerow.hogql.joined import Link
from hedgerow.hogql.kinds import Piece
from hedgerow.hogql.sources import Source, StoredTable, below
from hedgerow.hogql.tables import TABLES

MAX_NAMES = 50


@dataclass(frozen=True, slots=True)
class Named:
    """A name of WITH, and the names that it can itself read: those given before it."""

    cte: Cte
    visible: "Names"


Names = Mapping[str, Named]


def with_names(outer: Names, ctes: Mapping[str, Cte]) -> Names:
    """The outer names and those of one WITH, which hide outer ones."""
    visible = dict(outer)
    for name, cte in ctes.items():
        visible = {**visible, name: Named(cte, visible)}
        if len(visible) > MAX_NAMES:
            raise HogQLError(f"WITH gives more than {MAX_NAMES} names", start=cte.start)
    return visible


@dataclass
class Scope:
    """One SELECT. `ctes` are the names of WITH that it can read; `values` are those of them that
    stand for an expression and are in use here."""

    context: Context
    ctes: Names
    sources: dict[str, Source] = field(default_factory=dict)
    aliases: dict[str, Piece] = field(default_factory=dict)
    arrays: dict[str, Piece] = field(default_factory=dict)
    values: dict[str, tuple[str, Piece]] = field(default_factory=dict)
    windows: dict[str, str] = field(default_factory=dict)
    _arguments: list[dict[str, Piece]] = field(default_factory=list)
    # Columns that USING made one of two.
    united: set[str] = field(default_factory=set)

    @contextmanager
    def arguments(self, names: Sequence[str]) -> Iterator[list[str]]:
        """Inside a lambda its arguments hide all else."""
        given = [self.context.new_name("x") for _ in names]
        self._arguments.append({name: Piece(ours) for name, ours in zip(names, given, strict=True)})
        yield given
        self._arguments.pop()

    def add(self, name: str, source: Source, start: int | None) -> None:
        if name in self.sources:
            raise HogQLError(
                f"Two tables are called {shown(name)}", start=start, hint="Give one an alias."
            )
        self.sources[name] = source

    def local(self, chain: Sequence[Link]) -> Piece | None:
        """An argument, an alias or another name that the query itself gives."""
        first = str(chain[0])
        for arguments in reversed(self._arguments):
            if first in arguments:
                return below(self.context, arguments[first], chain[1:])
        if len(chain) > 1 and first in self.sources:
            return None
        for names in (self.aliases, self.arrays):
            if first in names:
                return below(self.context, names[first], chain[1:])
        return None

    def stored(self, chain: Sequence[Link], start: int | None) -> Piece:
        """A column of one of the tables."""
        first = str(chain[0])
        if len(chain) > 1 and first in self.sources:
            piece = self.sources[first].field(chain[1:])
            if piece is None:
                raise self._unknown(chain, [first], start)
            return piece
        found = [
            piece for source in self.sources.values() if (piece := source.field(chain)) is not None
        ]
        if not found:
            raise self._unknown(chain, list(self.sources), start)
        if len(found) > 1 and first not in self.united:
            raise HogQLError(
                f"{shown(first)} is in more than one table",
                start=start,
                hint="Write the table's name or alias before it.",
            )
        return found[0]

    def events_at(self, chain: Sequence[Link]) -> tuple[StoredTable, Sequence[Link]] | None:
        """The events that this names something of, if they are read as they are stored, and what
        it names of them."""
        if self.local(chain) is not None or str(chain[0]) in self.ctes:
            return None
        named = self.sources.get(str(chain[0])) if len(chain) > 1 else None
        if named is None and len(self.sources) != 1:
            return None
        found = named or next(iter(self.sources.values()))
        if not isinstance(found, StoredTable) or not found.is_events:
            return None
        return found, chain[1:] if named else chain

    def _unknown(self, chain: Sequence[Link], tables: list[str], start: int | None) -> HogQLError:
        name = ".".join(str(link) for link in chain)
        known = [name for table in tables for name in self.sources[table].names()]
        missing = str(chain[1]) if len(chain) > 1 and str(chain[0]) in tables else str(chain[0])
        if not self.sources:
            hint = "The query has no FROM."
        elif missing in known:
            hint = f"{shown(missing)} has no such part; name one of its columns."
        else:
            hint = did_you_mean(missing, [*known, *self.aliases, *tables])
        return HogQLError(f"Unable to find {shown(name)}", start=start, hint=hint)


def unknown_table(name: str, ctes: Names, start: int | None) -> HogQLError:
    hint = did_you_mean(name, [*TABLES, *ctes]) or f"There are {', '.join(TABLES)}."
    return HogQLError(f"Unknown table {shown(name)}", start=start, hint=hint)

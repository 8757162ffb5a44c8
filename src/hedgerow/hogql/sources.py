"""What stands in a FROM: a stored table, one behind a query of its own, or a query.

Here and in `joined`, and nowhere else, is a stored table named in SQL, each time with the project's
filter.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from hedgerow.hogql.context import Context
from hedgerow.hogql.errors import HogQLError, shown
from hedgerow.hogql.joined import Joined, Link
from hedgerow.hogql.kinds import Kind, Piece
from hedgerow.hogql.tables import (
    DISTINCT_IDS,
    EVENTS,
    GROUP_ROWS,
    GROUPS,
    ON_EVENTS,
    PERSONS,
    Column,
    Table,
)

PERSON_IDS = (("person_id",), ("person", "id"), ("pdi", "person_id"))


class Source(ABC):
    """`field` gives None for a name that the source does not have."""

    @abstractmethod
    def names(self) -> Sequence[str]:
        """What one can ask for, for hints."""

    @abstractmethod
    def field(self, chain: Sequence[Link]) -> Piece | None:
        """A column, or something that hangs on one."""

    @abstractmethod
    def star(self) -> list[tuple[str, Piece]]:
        """The columns of `*`."""

    @abstractmethod
    def sql(self) -> str:
        """How it stands in FROM. To be asked last: fields add to it."""

    def filter(self) -> str | None:
        """What the WHERE around it must say."""
        return None


class StoredTable(Source):
    """A table of the engine, with what is joined to it so that its fields can be had."""

    def __init__(self, context: Context, table: Table) -> None:
        context.count_table()
        self._context = context
        self._table = table
        self._alias = context.new_name("t")
        self._joins: dict[str, Joined] = {}
        self._read: dict[str, None] = {}

    def names(self) -> Sequence[str]:
        more: list[str] = []
        if self._table.person_column:
            more.append("person")
        if self._table is EVENTS:
            more += ["poe", "pdi", *(f"group_{n}" for n in GROUPS)]
        return [*self._table.columns, *more]

    def star(self) -> list[tuple[str, Piece]]:
        found = []
        for name, column in self._table.columns.items():
            if column.is_listed:
                piece = self.field((name,))
                assert piece is not None
                found.append((name, piece))
        return found

    def sql(self) -> str:
        return self._stored_sql() + self._joins_sql()

    def page_sql(self, rest: str) -> str:
        """The same, with only the rows that `rest` leaves: its WHERE, ORDER BY and LIMIT come
        before anything is joined."""
        listed = ", ".join(f"{self._alias}.`{name}` AS `{name}`" for name in self._read)
        page = f"(SELECT {listed} FROM {self._stored_sql()}{rest}) AS {self._alias}"
        return page + self._joins_sql()

    @property
    def joined_names(self) -> list[str]:
        return [joined.alias for joined in self._joins.values()]

    def _stored_sql(self) -> str:
        final = " FINAL" if self._table.is_final else ""
        return f"{self._table.name} AS {self._alias}{final}"

    def _joins_sql(self) -> str:
        return "".join(joined.sql() for joined in self._joins.values())

    def _reads(self, name: str) -> str:
        self._read[name] = None
        return f"{self._alias}.`{name}`"

    @property
    def is_events(self) -> bool:
        return self._table is EVENTS

    def ids_sql(self, condition: str) -> str:
        """The ids of persons of whom this is true, as a query in brackets."""
        return (
            f"(SELECT {self._reads('id')} FROM {self.sql()} WHERE {self.filter()} AND {condition})"
        )

    def person_among(self, members: str) -> str:
        """Whether today's person is one of these. The few ids that have moved are looked up, not
        joined, so that the engine can use its index of persons."""
        self._context.count_table()
        inner = self._context.new_name("t")
        person, distinct_id = self._reads("person_id"), self._reads("distinct_id")
        moved = (
            f"SELECT {inner}.`distinct_id` FROM {DISTINCT_IDS.name} AS {inner} FINAL"
            f" WHERE {inner}.project_id = {self._context.project} AND {inner}.is_moved"
        )
        return (
            f"(({person} IN {members} AND {distinct_id} NOT IN ({moved}))"
            f" OR {distinct_id} IN ({moved} AND {inner}.`person_id` IN {members}))"
        )

    def filter(self) -> str:
        return f"{self._alias}.project_id = {self._context.project}"

    def field(self, chain: Sequence[Link]) -> Piece | None:
        first, rest = chain[0], chain[1:]
        if first == "person_id" and self._table is EVENTS:
            return self._column_rest(Piece(self._person_id(), Kind.UUID, nullable=False), rest)
        if isinstance(first, str) and first in self._table.columns:
            return self._column_rest(self._column(self._table.columns[first]), rest)
        if first == "person" and self._table.person_column and rest:
            return self._of_person(rest)
        if first == "pdi" and rest:
            return self._of_distinct_id(rest)
        if self._table is EVENTS and rest:
            return self._of_event(str(first), rest)
        return None

    def _of_event(self, first: str, rest: Sequence[Link]) -> Piece | None:
        if first == "poe" and rest[0] in ON_EVENTS:
            return self._column_rest(self._column(ON_EVENTS[str(rest[0])]), rest[1:])
        kind, _, number = first.rpartition("_")
        if kind in ("group", "goe") and number in "01234" and len(number) == 1:
            return self._of_group(int(number), rest)
        return None

    def _column(self, column: Column) -> Piece:
        sql = self._reads(column.name)
        if column.kind is Kind.DATETIME:
            return self._context.shown_time(sql)
        return Piece(sql, column.kind, nullable=False, owner=column.owner)

    def _column_rest(self, piece: Piece, rest: Sequence[Link]) -> Piece | None:
        if not rest:
            return piece
        if piece.kind is Kind.PROPERTIES:
            return self._context.property(piece.sql, rest, piece.owner)
        return None

    def _person_id(self) -> str:
        """Today's person: ids that have moved to another person since are looked up."""
        stored = self._reads(str(self._table.person_column))
        if self._table is not EVENTS:
            return stored
        moved = self._join("moved")
        moved.key, moved.table, moved.condition = "distinct_id", DISTINCT_IDS, "is_moved"
        moved.on = self._reads("distinct_id")
        person = moved.column("person_id")
        return f"if(notEmpty({moved.alias}.k), {person}, {stored})"

    def _of_person(self, rest: Sequence[Link]) -> Piece | None:
        if rest[0] == "id" and len(rest) == 1:
            return Piece(self._person_id(), Kind.UUID, nullable=False)
        on = self._person_id()
        joined = self._join("person")
        joined.key, joined.table, joined.on = "id", PERSONS, on
        return joined.field(rest)

    def _of_distinct_id(self, rest: Sequence[Link]) -> Piece | None:
        if self._table is EVENTS:
            inner = ("person_id",) if rest[0] == "person_id" else rest
            return self.field(inner) if inner[0] in ("person_id", "distinct_id", "person") else None
        if self._table is not PERSONS or len(rest) > 1 or rest[0] not in DISTINCT_IDS.columns:
            return None
        joined = self._join("pdi")
        joined.key, joined.table, joined.on = "person_id", DISTINCT_IDS, self._reads("id")
        return joined.field(rest)

    def _of_group(self, number: int, rest: Sequence[Link]) -> Piece | None:
        key = self._reads(f"$group_{number}")
        if rest[0] in ("key", "group_key") and len(rest) == 1:
            return Piece(key, Kind.STRING, nullable=False)
        joined = self._join(f"group_{number}")
        joined.key, joined.table, joined.on = "group_key", GROUP_ROWS, key
        joined.condition = f"group_type_index = {number}"
        return joined.field(rest, owner=f"group_{number}")

    def _join(self, name: str) -> Joined:
        if name not in self._joins:
            self._joins[name] = Joined(self._context)
        return self._joins[name]


class WrappedTable(Source):
    """A stored table as a query of its own: one that is joined, where a filter in the WHERE would
    come too late."""

    def __init__(self, context: Context, table: Table) -> None:
        self._context = context
        self._stored = StoredTable(context, table)
        self._alias = context.new_name("t")
        self._columns: dict[str, str] = {}

    def names(self) -> Sequence[str]:
        return self._stored.names()

    def field(self, chain: Sequence[Link]) -> Piece | None:
        piece = self._stored.field(chain)
        return None if piece is None else self._outside(piece)

    def star(self) -> list[tuple[str, Piece]]:
        return [(name, self._outside(piece)) for name, piece in self._stored.star()]

    def sql(self) -> str:
        listed = ", ".join(f"{sql} AS {name}" for sql, name in self._columns.items())
        return (
            f"(SELECT {listed or '1'} FROM {self._stored.sql()}"
            f" WHERE {self._stored.filter()}) AS {self._alias}"
        )

    def _outside(self, piece: Piece) -> Piece:
        if piece.sql not in self._columns:
            self._columns[piece.sql] = self._context.new_name("c")
        return piece.at(f"{self._alias}.{self._columns[piece.sql]}")


class QueryTable(Source):
    """A query in brackets; `columns` are its own, by the query's names."""

    def __init__(self, context: Context, sql: str, columns: Sequence[tuple[str, Piece]]) -> None:
        self._context = context
        self._sql = sql
        self._alias = context.new_name("t")
        self._columns: dict[str, Piece] = {}
        for name, piece in columns:
            self._columns.setdefault(name, piece.at(f"{self._alias}.{piece.sql}"))
        self._listed = [(name, piece.at(f"{self._alias}.{piece.sql}")) for name, piece in columns]

    def names(self) -> Sequence[str]:
        return list(self._columns)

    def field(self, chain: Sequence[Link]) -> Piece | None:
        piece = self._columns.get(str(chain[0]))
        return None if piece is None else below(self._context, piece, chain[1:])

    def star(self) -> list[tuple[str, Piece]]:
        return self._listed

    def sql(self) -> str:
        return f"({self._sql}) AS {self._alias}"


def below(context: Context, piece: Piece, rest: Sequence[Link]) -> Piece:
    """What hangs on a value: a part of JSON text, or of a tuple."""
    if not rest:
        return piece
    if piece.kind in (Kind.PROPERTIES, Kind.STRING):
        return context.property(piece.sql, rest, piece.owner)
    if piece.kind is not Kind.UNKNOWN:
        raise HogQLError(f"There is nothing named {shown(str(rest[0]))} in a {piece.kind}")
    sql = piece.sql
    for link in rest:
        part = context.parameters.text(link) if isinstance(link, str) else str(link)
        sql = f"tupleElement({sql}, {part})"
    return Piece(sql)

"""The sources of a FROM clause: a stored table, a wrapped table or a subquery.

Stored tables are named in SQL only here, each time with the filter on the project.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from hedgerow.hogql.errors import HogQLError, quote
from hedgerow.hogql.printer.context import PrinterState
from hedgerow.hogql.tables import (
    DISTINCT_IDS,
    EVENTS,
    GROUP_INDEXES,
    GROUPS,
    PERSON_ON_EVENTS,
    PERSONS,
    HogQLTable,
    TableColumn,
)
from hedgerow.hogql.typed_properties import TYPED_PROPERTIES
from hedgerow.hogql.typed_sql import TypedSql, ValueType

Link = str | int


class LookupJoin:
    """A join of at most one row of another table, with only the columns in use. The columns are
    nullable, so that a missing row is visible."""

    def __init__(self, state: PrinterState) -> None:
        state.count_table()
        self._state = state
        self._inner = state.new_name("t")
        self._columns: dict[str, str] = {}
        self.alias = state.new_name("t")
        self.table = PERSONS
        self.key = ""
        self.on = ""
        self.condition = ""

    def print_column(self, name: str) -> str:
        return self._expose(f"{self._inner}.`{name}`")

    def resolve_field(self, rest: Sequence[Link]) -> TypedSql | None:
        column = self.table.columns.get(str(rest[0]))
        if column is None or column.name == "project_id":
            return None
        inner = f"{self._inner}.`{column.name}`"
        if column.type is ValueType.PROPERTIES and len(rest) > 1:
            piece = self._state.extract_property(inner, rest[1:])
            return piece.with_sql(self._expose(piece.sql))
        if len(rest) > 1:
            return None
        outer = self._expose(f"toNullable({inner})")
        if column.type is ValueType.DATETIME:
            return self._state.localize_time(outer, nullable=True)
        return TypedSql(outer, column.type, nullable=True)

    def print_sql(self) -> str:
        columns = "".join(f", {sql} AS {name}" for sql, name in self._columns.items())
        more = f" AND {self._inner}.{self.condition}" if self.condition else ""
        return (
            f" LEFT JOIN (SELECT {self._inner}.`{self.key}` AS k{columns}"
            f" FROM {self.table.name} AS {self._inner} FINAL"
            f" WHERE {self._inner}.project_id = {self._state.project}{more}) AS {self.alias}"
            f" ON {self.alias}.k = {self.on}"
        )

    def _expose(self, inner: str) -> str:
        if inner not in self._columns:
            self._columns[inner] = self._state.new_name("c")
        return f"{self.alias}.{self._columns[inner]}"


class SessionJoin:
    """A join of the session of an event. Its columns are NULL for an event without one."""

    def __init__(self, state: PrinterState, on: str) -> None:
        state.count_table()
        self._sql, columns = state.print_view("sessions")
        self._columns = dict(columns)
        self._on = on
        self.alias = state.new_name("t")

    @property
    def _key(self) -> str:
        return f"{self.alias}.{self._columns['session_id'].sql}"

    def resolve_field(self, rest: Sequence[Link]) -> TypedSql | None:
        column = self._columns.get(str(rest[0]))
        if column is None or len(rest) > 1:
            return None
        sql = f"if(notEmpty({self._key}), {self.alias}.{column.sql}, NULL)"
        return replace(column.with_sql(sql), nullable=True)

    def print_sql(self) -> str:
        return f" LEFT JOIN ({self._sql}) AS {self.alias} ON {self._key} = {self._on}"


PERSON_IDS = (("person_id",), ("person", "id"), ("pdi", "person_id"))


class TableSource(ABC):
    """A source of columns. `resolve_field` returns None for an unknown name."""

    @abstractmethod
    def column_names(self) -> Sequence[str]:
        """Return the available names, for hints."""

    @abstractmethod
    def resolve_field(self, chain: Sequence[Link]) -> TypedSql | None:
        """Resolve a column or a part of one."""

    @abstractmethod
    def expand_star(self) -> list[tuple[str, TypedSql]]:
        """Return the columns of `*`."""

    @abstractmethod
    def print_sql(self) -> str:
        """Print the source for FROM. Call it last: resolving fields adds columns and joins."""

    def print_filter(self) -> str | None:
        """Return the condition that the enclosing WHERE must contain."""
        return None


class StoredTable(TableSource):
    """A table of the event store, with the joins that its fields need."""

    def __init__(self, state: PrinterState, table: HogQLTable) -> None:
        state.count_table()
        self._state = state
        self._table = table
        self._alias = state.new_name("t")
        self._joins: dict[str, LookupJoin] = {}
        self._session: SessionJoin | None = None
        # The SQL that reads each column or subcolumn, with the name that a page gives it.
        self._read: dict[str, str] = {}

    def column_names(self) -> Sequence[str]:
        more: list[str] = []
        if self._table.person_column:
            more.append("person")
        if self._table is EVENTS:
            more += ["poe", "pdi", "session", *(f"group_{n}" for n in GROUP_INDEXES)]
        return [*self._table.columns, *more]

    def expand_star(self) -> list[tuple[str, TypedSql]]:
        found = []
        for name, column in self._table.columns.items():
            if column.is_listed:
                piece = self.resolve_field((name,))
                assert piece is not None
                found.append((name, piece))
        return found

    def print_sql(self) -> str:
        return self._print_table() + self._print_joins()

    def print_page(self, rest: str) -> str:
        """Print the table limited to the rows that `rest` selects with WHERE, ORDER BY and LIMIT,
        before the joins."""
        listed = ", ".join(f"{sql} AS {name}" for sql, name in self._read.items())
        page = f"(SELECT {listed} FROM {self._print_table()}{rest}) AS {self._alias}"
        return page + self._print_joins()

    def read_from_page(self, sql: str) -> str:
        """Name the columns of the page in an expression that was printed for the table."""
        for subcolumn, name in self._read.items():
            sql = sql.replace(subcolumn, f"{self._alias}.{name}")
        return sql

    @property
    def join_aliases(self) -> list[str]:
        return [joined.alias for joined in self._list_joins()]

    def _print_table(self) -> str:
        final = " FINAL" if self._table.is_final else ""
        return f"{self._table.name} AS {self._alias}{final}"

    def _print_joins(self) -> str:
        return "".join(joined.print_sql() for joined in self._list_joins())

    def _list_joins(self) -> list[LookupJoin | SessionJoin]:
        return [*self._joins.values(), *([self._session] if self._session else ())]

    def _read_column(self, name: str) -> str:
        sql = f"{self._alias}.`{name}`"
        self._read[sql] = f"`{name}`"
        return sql

    @property
    def is_events(self) -> bool:
        return self._table is EVENTS

    def print_person_ids(self, condition: str) -> str:
        """Print a subquery for the ids of the persons that match the condition."""
        id = self._read_column("id")
        return f"(SELECT {id} FROM {self.print_sql()} WHERE {self.print_filter()} AND {condition})"

    def print_person_in(self, members: str) -> str:
        """Test whether the current person is one of these. The few distinct ids that were merged
        are looked up and not joined, so that the event store can use its index of persons."""
        self._state.count_table()
        inner = self._state.new_name("t")
        person, distinct_id = self._read_column("person_id"), self._read_column("distinct_id")
        moved = (
            f"SELECT {inner}.`distinct_id` FROM {DISTINCT_IDS.name} AS {inner} FINAL"
            f" WHERE {inner}.project_id = {self._state.project} AND {inner}.is_moved"
        )
        return (
            f"(({person} IN {members} AND {distinct_id} NOT IN ({moved}))"
            f" OR {distinct_id} IN ({moved} AND {inner}.`person_id` IN {members}))"
        )

    def print_filter(self) -> str:
        return f"{self._alias}.project_id = {self._state.project}"

    def resolve_field(self, chain: Sequence[Link]) -> TypedSql | None:
        first, rest = chain[0], chain[1:]
        if first == "person_id" and self._table is EVENTS:
            if rest:
                return None
            return TypedSql(self._person_id(), ValueType.UUID, nullable=False)
        if isinstance(first, str) and first in self._table.columns:
            return self._resolve_part(self._table.columns[first], rest)
        if first == "person" and self._table.person_column and rest:
            return self._resolve_person_field(rest)
        if first == "pdi" and rest:
            return self._resolve_distinct_id_field(rest)
        if self._table is EVENTS and rest:
            return self._resolve_event_field(str(first), rest)
        return None

    def _resolve_event_field(self, first: str, rest: Sequence[Link]) -> TypedSql | None:
        if first == "poe" and rest[0] in PERSON_ON_EVENTS:
            return self._resolve_part(PERSON_ON_EVENTS[str(rest[0])], rest[1:])
        if first == "session":
            if self._session is None:
                self._session = SessionJoin(self._state, self._read_column("$session_id"))
            return self._session.resolve_field(rest)
        kind, _, number = first.rpartition("_")
        if kind in ("group", "goe") and number in "01234" and len(number) == 1:
            return self._resolve_group_field(int(number), rest)
        return None

    def _print_column(self, column: TableColumn) -> TypedSql:
        sql = self._read_column(column.name)
        if column.type is ValueType.DATETIME:
            return self._state.localize_time(sql)
        return TypedSql(sql, column.type, nullable=False)

    def _resolve_part(self, column: TableColumn, rest: Sequence[Link]) -> TypedSql | None:
        if not rest:
            return self._print_column(column)
        if column.type is not ValueType.PROPERTIES:
            return None
        typed = TYPED_PROPERTIES.get(column.name) if self._table is EVENTS else None
        stored = None
        if typed is not None:
            stored = self._state.find_stored_property(self._alias, typed, rest)
        if stored is None:
            text = self._read_column(column.name)
            return self._state.extract_property(text, rest)
        for sql in [stored] if isinstance(stored, str) else stored.subcolumns:
            if sql not in self._read:
                self._read[sql] = self._state.new_name("c")
        return self._state.extract_property("", rest, stored)

    def _person_id(self) -> str:
        """Return the current person: distinct ids that were merged into another person are looked
        up."""
        stored = self._read_column(str(self._table.person_column))
        if self._table is not EVENTS:
            return stored
        moved = self._get_join("moved")
        moved.key, moved.table, moved.condition = "distinct_id", DISTINCT_IDS, "is_moved"
        moved.on = self._read_column("distinct_id")
        person = moved.print_column("person_id")
        return f"if(notEmpty({moved.alias}.k), {person}, {stored})"

    def _resolve_person_field(self, rest: Sequence[Link]) -> TypedSql | None:
        if rest[0] == "id" and len(rest) == 1:
            return TypedSql(self._person_id(), ValueType.UUID, nullable=False)
        on = self._person_id()
        joined = self._get_join("person")
        joined.key, joined.table, joined.on = "id", PERSONS, on
        return joined.resolve_field(rest)

    def _resolve_distinct_id_field(self, rest: Sequence[Link]) -> TypedSql | None:
        if self._table is EVENTS:
            inner = ("person_id",) if rest[0] == "person_id" else rest
            return (
                self.resolve_field(inner)
                if inner[0] in ("person_id", "distinct_id", "person")
                else None
            )
        if self._table is not PERSONS or len(rest) > 1 or rest[0] not in DISTINCT_IDS.columns:
            return None
        joined = self._get_join("pdi")
        joined.key, joined.table, joined.on = "person_id", DISTINCT_IDS, self._read_column("id")
        return joined.resolve_field(rest)

    def _resolve_group_field(self, number: int, rest: Sequence[Link]) -> TypedSql | None:
        key = self._read_column(f"$group_{number}")
        if rest[0] in ("key", "group_key") and len(rest) == 1:
            return TypedSql(key, ValueType.STRING, nullable=False)
        joined = self._get_join(f"group_{number}")
        joined.key, joined.table, joined.on = "group_key", GROUPS, key
        joined.condition = f"group_type_index = {number}"
        return joined.resolve_field(rest)

    def _get_join(self, name: str) -> LookupJoin:
        if name not in self._joins:
            self._joins[name] = LookupJoin(self._state)
        return self._joins[name]


class WrappedTable(TableSource):
    """A stored table in a subquery. Used for joined tables, where a filter in WHERE comes too
    late."""

    def __init__(self, state: PrinterState, table: HogQLTable) -> None:
        self._state = state
        self._stored = StoredTable(state, table)
        self._alias = state.new_name("t")
        self._columns: dict[str, str] = {}

    def column_names(self) -> Sequence[str]:
        return self._stored.column_names()

    def resolve_field(self, chain: Sequence[Link]) -> TypedSql | None:
        piece = self._stored.resolve_field(chain)
        return None if piece is None else self._expose(piece)

    def expand_star(self) -> list[tuple[str, TypedSql]]:
        return [(name, self._expose(piece)) for name, piece in self._stored.expand_star()]

    def print_sql(self) -> str:
        listed = ", ".join(f"{sql} AS {name}" for sql, name in self._columns.items())
        return (
            f"(SELECT {listed or '1'} FROM {self._stored.print_sql()}"
            f" WHERE {self._stored.print_filter()}) AS {self._alias}"
        )

    def _expose(self, piece: TypedSql) -> TypedSql:
        if piece.sql not in self._columns:
            self._columns[piece.sql] = self._state.new_name("c")
        return piece.with_sql(f"{self._alias}.{self._columns[piece.sql]}")


class QueryTable(TableSource):
    """A subquery. `columns` are its columns by name."""

    def __init__(
        self, state: PrinterState, sql: str, columns: Sequence[tuple[str, TypedSql]]
    ) -> None:
        self._state = state
        self._sql = sql
        self._alias = state.new_name("t")
        self._columns: dict[str, TypedSql] = {}
        for name, piece in columns:
            self._columns.setdefault(name, piece.with_sql(f"{self._alias}.{piece.sql}"))
        self._listed = [
            (name, piece.with_sql(f"{self._alias}.{piece.sql}")) for name, piece in columns
        ]

    def column_names(self) -> Sequence[str]:
        return list(self._columns)

    def resolve_field(self, chain: Sequence[Link]) -> TypedSql | None:
        piece = self._columns.get(str(chain[0]))
        return None if piece is None else descend(self._state, piece, chain[1:])

    def expand_star(self) -> list[tuple[str, TypedSql]]:
        return self._listed

    def print_sql(self) -> str:
        return f"({self._sql}) AS {self._alias}"


def descend(state: PrinterState, piece: TypedSql, rest: Sequence[Link]) -> TypedSql:
    """Resolve a part of a value: a key of JSON text or an element of a tuple."""
    if not rest:
        return piece
    if piece.type in (ValueType.PROPERTIES, ValueType.STRING):
        return state.extract_property(piece.sql, rest)
    if piece.type is not ValueType.UNKNOWN:
        raise HogQLError(f"A value of type {piece.type} has no field {quote(str(rest[0]))}")
    sql = piece.sql
    for link in rest:
        part = state.parameters.add_text(link) if isinstance(link, str) else str(link)
        sql = f"tupleElement({sql}, {part})"
    return TypedSql(sql)

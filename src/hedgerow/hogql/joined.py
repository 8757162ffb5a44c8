"""What is joined to a stored table so that its fields can be had."""

from collections.abc import Sequence

from hedgerow.hogql.context import Context
from hedgerow.hogql.kinds import Kind, Piece
from hedgerow.hogql.tables import PERSONS

Link = str | int


class Joined:
    """Rows of another table, one or none for each of ours, with only the columns asked for. They
    can be NULL, so that the absence of a row shows."""

    def __init__(self, context: Context) -> None:
        context.count_table()
        self._context = context
        self._inner = context.new_name("t")
        self._columns: dict[str, str] = {}
        self.alias = context.new_name("t")
        self.table = PERSONS
        self.key = ""
        self.on = ""
        self.condition = ""

    def column(self, name: str) -> str:
        return self._had(f"{self._inner}.`{name}`")

    def field(self, rest: Sequence[Link], owner: str = "") -> Piece | None:
        column = self.table.columns.get(str(rest[0]))
        if column is None or column.name == "project_id":
            return None
        inner = f"{self._inner}.`{column.name}`"
        if column.kind is Kind.PROPERTIES and len(rest) > 1:
            piece = self._context.property(inner, rest[1:], owner or column.owner)
            return piece.at(self._had(piece.sql))
        if len(rest) > 1:
            return None
        outer = self._had(f"toNullable({inner})")
        if column.kind is Kind.DATETIME:
            return self._context.shown_time(outer, nullable=True)
        return Piece(outer, column.kind, nullable=True, owner=owner or column.owner)

    def sql(self) -> str:
        columns = "".join(f", {sql} AS {name}" for sql, name in self._columns.items())
        more = f" AND {self._inner}.{self.condition}" if self.condition else ""
        return (
            f" LEFT JOIN (SELECT {self._inner}.`{self.key}` AS k{columns}"
            f" FROM {self.table.name} AS {self._inner} FINAL"
            f" WHERE {self._inner}.project_id = {self._context.project}{more}) AS {self.alias}"
            f" ON {self.alias}.k = {self.on}"
        )

    def _had(self, inner: str) -> str:
        if inner not in self._columns:
            self._columns[inner] = self._context.new_name("c")
        return f"{self.alias}.{self._columns[inner]}"

"""What all parts of one printing share: the world, the values, the names that we give, and the
spelling of a few things in the engine's SQL."""

from collections.abc import Sequence
from datetime import datetime

from hedgerow.hogql.errors import HogQLError
from hedgerow.hogql.kinds import Kind, Piece
from hedgerow.hogql.parameters import Parameters
from hedgerow.hogql.world import PropertyType, World

# What a query may grow to in print. Names of WITH are printed wherever they are used.
MAX_SQL = 400_000
MAX_TABLES = 60


class Context:
    """One for each query that is printed."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.parameters = Parameters()
        self.tables = 0
        self._given = 0

    def new_name(self, letter: str) -> str:
        """A name of ours. Names of the query's own never reach the SQL."""
        self._given += 1
        return f"{letter}{self._given}"

    def count_table(self) -> None:
        self.tables += 1
        if self.tables > MAX_TABLES:
            raise HogQLError(f"The query reads more than {MAX_TABLES} tables")

    def bounded(self, sql: str) -> str:
        if len(sql) > MAX_SQL:
            raise HogQLError("The query is too large")
        return sql

    @property
    def project(self) -> str:
        return self.parameters.add("Int64", self.world.project_id)

    @property
    def zone(self) -> str:
        return self.parameters.text(self.world.timezone)

    @property
    def now(self) -> Piece:
        return self.shown_time(self.parameters.moment(self.world.now))

    def shown_time(self, sql: str, *, nullable: bool = False) -> Piece:
        """A moment in the project's time zone."""
        shown = sql if self.world.timezone == "UTC" else f"toTimeZone({sql}, {self.zone})"
        return Piece(shown, Kind.DATETIME, nullable=nullable, instant=sql)

    def parsed_time(self, sql: str) -> Piece:
        """The moment that a text tells, in the project's time zone; NULL when it tells none."""
        return Piece(f"parseDateTime64BestEffortOrNull({sql}, 6, {self.zone})", Kind.DATETIME)

    def parsed_constant(self, text: str) -> Piece | None:
        """The same for a text that we can read ourselves, so that the engine can use its index."""
        try:
            moment = datetime.fromisoformat(text.strip())
        except ValueError:
            return None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=self.world.zone)
        if not 1900 < moment.year < 2290:
            return None
        return Piece(
            self.parameters.moment(moment), Kind.DATETIME, nullable=False, is_constant=True
        )

    def property(self, base: str, keys: Sequence[str | int], owner: str) -> Piece:
        """A value in a JSON text. The type of a first-level property may be known."""
        path = ", ".join(
            self.parameters.text(key) if isinstance(key, str) else self.parameters.integer(key)
            for key in keys
        )
        text = f"JSONExtract({base}, {path}, 'Nullable(String)')"
        known = PropertyType.STRING
        if len(keys) == 1 and isinstance(keys[0], str):
            known = self.world.property_type(owner, keys[0])
        match known:
            case PropertyType.NUMERIC:
                return Piece(f"toFloat64OrNull({text})", Kind.NUMBER)
            case PropertyType.DATETIME:
                return self.parsed_time(text)
            case PropertyType.BOOLEAN:
                return Piece(as_truth(text), Kind.BOOL)
            case _:
                return Piece(text, Kind.STRING, is_loose=True)


def as_truth(sql: str) -> str:
    """The text of a boolean as one; NULL for every other text."""
    return f"transform({sql}, ['true', 'false'], [true, false], NULL)"


def as_number(sql: str) -> str:
    return f"toFloat64OrNull({sql})"

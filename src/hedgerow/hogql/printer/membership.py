"""IN, cohorts, and conditions on persons, which become subqueries instead of joins."""

from abc import ABC, abstractmethod
from uuid import UUID

from hedgerow.hogql.ast import (
    Array,
    ArrayAccess,
    Compare,
    CompareOperation,
    Constant,
    Expr,
    Field,
    Node,
    Select,
    SelectQuery,
    SelectSet,
    Tuple,
)
from hedgerow.hogql.errors import HogQLError
from hedgerow.hogql.printer.comparisons import (
    POSITIVE_FORMS,
    add_uuid_array,
    bool_sql,
    print_comparison,
    print_in_array,
    print_in_constants,
    print_in_query,
    print_null_comparison,
)
from hedgerow.hogql.printer.context import PrinterState
from hedgerow.hogql.printer.scope import SelectScope
from hedgerow.hogql.printer.sources import PERSON_IDS, StoredTable
from hedgerow.hogql.tables import PERSONS
from hedgerow.hogql.typed_sql import TypedSql


class MembershipPrinter(ABC):
    """Prints membership tests."""

    def __init__(self, state: PrinterState, scope: SelectScope, depth: int) -> None:
        self.state = state
        self.scope = scope
        self.depth = depth
        # Join conditions use plain comparison.
        self.is_join = False
        # In WHERE, persons are looked up in a subquery. Elsewhere they are joined, so that an
        # expression prints alike in SELECT and in GROUP BY.
        self.is_filter = False
        # Outside of WHERE and of aggregate functions, expressions of a query with groups.
        self.is_grouped = False
        # What is grouped by instead of the text of a property or its alias, by their SQL.
        self.group_keys: dict[str, str] = {}

    @abstractmethod
    def print_expr(self, node: Expr) -> TypedSql:
        """Print any expression."""

    @abstractmethod
    def print_subquery(self, query: Select) -> str:
        """Print a subquery, without brackets."""

    @abstractmethod
    def print_cohort_query(self, query: Select) -> str:
        """Print a query that is not part of the text. It cannot use the CTEs of the text."""

    def print_in(self, op: Compare, node: CompareOperation) -> TypedSql:
        right = node.right
        values = _constant_values(right)
        table = self._find_events_of_person(node.left)
        if isinstance(right, SelectQuery | SelectSet):
            query = self.print_subquery(right)
            if table is not None:
                return _negate_if(table.print_person_in(f"({query})"), op)
            return print_in_query(op, self.print_expr(node.left), query)
        if values is not None and table is not None and None not in values:
            return _negate_if(table.print_person_in(add_uuid_array(self.state, values)), op)
        if (of_people := self.print_person_filter(op, node)) is not None:
            return of_people
        left = self.print_expr(node.left)
        if values is not None:
            return print_in_constants(self.state, op, left, values)
        if isinstance(right, Tuple):
            right = Array(exprs=right.exprs, start=right.start, end=right.end)
        return print_in_array(op, left, self.print_expr(right))

    def print_in_cohort(self, node: CompareOperation) -> TypedSql:
        right = node.right
        if not isinstance(right, Constant) or not isinstance(right.value, int | str):
            raise HogQLError("Expected the id or the name of a cohort", start=right.start)
        query = self.state.print_context.find_cohort(right.value)
        if query is None:
            by = "id" if isinstance(right.value, int) else "name"
            what = f"Could not find cohort with {by} {str(right.value)[:100]}"
            raise HogQLError(what, start=right.start)
        members = self.print_cohort_query(query)
        table = self._find_events_of_person(node.left)
        if table is not None:
            return _negate_if(table.print_person_in(f"({members})"), node.op)
        return print_in_query(node.op, self.print_expr(node.left), members)

    def _find_events_of_person(self, node: Expr) -> StoredTable | None:
        """Return the events table whose current person the expression names, in a filter."""
        if not isinstance(node, Field) or not self.is_filter:
            return None
        place = self.scope.find_events(node.chain)
        return place[0] if place is not None and tuple(place[1]) in PERSON_IDS else None

    def print_person_equality(self, op: Compare, node: CompareOperation) -> TypedSql | None:
        """Print `person_id = '...'`, on either side."""
        for side, other in ((node.left, node.right), (node.right, node.left)):
            if op in (Compare.EQ, Compare.NOT_EQ) and isinstance(other, Constant):
                table = self._find_events_of_person(side)
                if table is not None and isinstance(other.value, str | UUID):
                    return _negate_if(
                        table.print_person_in(add_uuid_array(self.state, [other.value])), op
                    )
        return None

    def print_person_filter(self, op: Compare, node: CompareOperation) -> TypedSql | None:
        """Print `person.properties.x = 'a'` in a filter: select the matching persons, then their
        events.

        A negative comparison negates the positive one, so it also holds for events without a
        person.
        """
        field, values = as_field(node.left), _constant_values(node.right)
        if field is None or values is None or not self.is_filter:
            return None
        place = self.scope.find_events(field.chain)
        if place is None or place[1][0] != "person" or len(place[1]) < 2 or place[1][1] == "id":
            return None
        has_null = None in values
        if has_null and (len(values) > 1 or op not in (Compare.EQ, Compare.NOT_EQ)):
            return None
        people = StoredTable(self.state, PERSONS)
        left = people.resolve_field(place[1][1:])
        if left is None:
            return None
        positive = POSITIVE_FORMS.get(op, op)
        if has_null:
            positive, condition = Compare.NOT_EQ, print_null_comparison(Compare.NOT_EQ, left)
        elif positive is Compare.IN:
            condition = print_in_constants(self.state, positive, left, values)
        else:
            condition = print_comparison(self.state, positive, left, self.print_expr(node.right))
        sql = place[0].print_person_in(people.print_person_ids(condition.sql))
        return bool_sql(sql if positive is op else f"not{sql}")


def _negate_if(sql: str, op: Compare) -> TypedSql:
    is_negative = op in (Compare.NOT_EQ, Compare.NOT_IN, Compare.NOT_IN_COHORT)
    return bool_sql(f"not{sql}" if is_negative else sql)


def _constant_values(node: Expr) -> list[object] | None:
    """Return the values of a constant or of a list of constants. None if a value is computed."""
    if isinstance(node, Constant):
        is_list = isinstance(node.value, list | tuple)
        return list(node.value) if is_list else [node.value]  # type: ignore[arg-type]
    if isinstance(node, Tuple | Array):
        values: list[object] = []
        for each in node.exprs:
            if not isinstance(each, Constant) or isinstance(each.value, list | tuple):
                return None
            values.append(each.value)
        return values
    return None


def as_field(node: Node) -> Field | None:
    """Convert `properties['a'].b` to the field `properties.a.b`."""
    if isinstance(node, Field):
        return node
    if not isinstance(node, ArrayAccess) or not isinstance(node.index, Constant):
        return None
    link = node.index.value
    below_it = as_field(node.array)
    if below_it is None or isinstance(link, bool) or not isinstance(link, str | int):
        return None
    return Field(chain=(*below_it.chain, link), start=node.start, end=node.end)

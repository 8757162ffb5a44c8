"""Checks of printed SQL that hold for every query."""

import re

from hedgerow.hogql.catalogue import COMBINATORS
from hedgerow.hogql.functions import AGGREGATES, FUNCTIONS, WINDOW_FUNCTIONS
from hedgerow.hogql.printer.statement import PrintedQuery
from hedgerow.hogql.tables import EVENTS, PERSON_ON_EVENTS, TABLES
from hedgerow.hogql.typed_properties import TYPED_PROPERTIES

_PLACE = re.compile(r"\{p\d+:(?:[A-Z][A-Za-z0-9]*|Array\([A-Z][A-Za-z0-9]*\))\}")
_TEXTS = {"Nullable(String)", "UTC", "Int64", "Float64", "UUID", "true", "false", "1", "0", "yes",
          "no", "(?i)", "", "=", "=true", "=false"}  # fmt: skip
_TEXT = re.compile(r"'([^']*)'")
_DECIMAL = re.compile(r"Decimal\(18, \d+\)")
_COLUMN = re.compile(r"`([^`]*)`")
_WORD = re.compile(r"[A-Za-z_$][\w$]*")
_OURS = re.compile(r"[tcvxaw]\d+|k")
_KEYWORD_LIST = """
SELECT DISTINCT FROM FINAL AS WITH LEFT RIGHT FULL INNER CROSS ANY ASOF SEMI ANTI ARRAY
JOIN ON WHERE GROUP BY HAVING WINDOW ORDER LIMIT OFFSET TIES AND OR NOT IN NULL NULLS
FIRST LAST DESC UNION ALL INTERSECT EXCEPT OVER PARTITION ROWS RANGE BETWEEN UNBOUNDED
PRECEDING FOLLOWING CURRENT ROW true false project_id is_moved group_type_index
"""
_KEYWORDS = frozenset(_KEYWORD_LIST.split())
# Functions that the printer adds.
_WRITTEN_LIST = """
equals notEquals greater greaterOrEquals less lessOrEquals like notLike ilike notILike in
notIn has isNull isNotNull ifNull match concat not JSONExtract toNullable toTimeZone
toDateTime64 toDateTime toDate parseDateTime64BestEffortOrNull transform toFloat64OrNull
toUUIDOrNull toString tupleElement arrayElement tuple accurateCastOrNull lower multiIf
exists uniqExact if notEmpty plus minus CAST substring startsWith position dynamicElement
"""
_WRITTEN = frozenset(_WRITTEN_LIST.split())
_CALLS = {
    each.engine_name
    for table in (FUNCTIONS, AGGREGATES, WINDOW_FUNCTIONS)
    for each in table.values()
}
_COLUMNS = {column.name for table in TABLES.values() for column in table.columns.values()} | {
    column.name for column in PERSON_ON_EVENTS.values()
}
_COLUMNS |= {
    name
    for typed in TYPED_PROPERTIES.values()
    for name in (typed.common, typed.other, *typed.common_keys)
}
# How a value of one type is read from a property.
_VARIANT = re.compile(r"\.:(?:String|Float64)(?:\.null)?\b|(?<=, )'(?:String|Float64)'(?=\))")
_READ = re.compile(rf"\b({'|'.join(TABLES)}) AS (t\d+)")


def check(printed: PrintedQuery, project_id: int) -> None:
    """Check that the SQL contains only known words, and that each table is filtered by project."""
    rest = _VARIANT.sub(" ", _PLACE.sub(" ", printed.sql))
    for text in _TEXT.findall(rest):
        assert text in _TEXTS or _DECIMAL.fullmatch(text), text
    rest = _TEXT.sub(" ", rest)
    for column in _COLUMN.findall(rest):
        assert column in _COLUMNS, column
    rest = _COLUMN.sub(" ", rest)
    for word in _WORD.findall(rest):
        assert _is_known(word), word
    rest = rest.replace("SELECT * FROM (", "")
    assert not re.search(r"[^\w\s$.,()\[\]=<>+-]", rest), rest
    for table, alias in _READ.findall(printed.sql):
        assert table in TABLES
        filters = re.findall(rf"{alias}\.project_id = \{{(p\d+):Int64\}}", printed.sql)
        assert filters, f"{table} has no filter"
        assert all(printed.parameters[name] == project_id for name in filters)
    named = re.findall(rf"\b(?:FROM|JOIN)\s+({'|'.join(TABLES)})\b", printed.sql)
    assert len(named) == len(_READ.findall(printed.sql))


def _is_known(word: str) -> bool:
    if word in _KEYWORDS or word in _WRITTEN or word in _CALLS or word in TABLES:
        return True
    if _OURS.fullmatch(word):
        return True
    for ending in COMBINATORS:
        if word.endswith(ending) and _is_known(word.removesuffix(ending)):
            return True
    return word.startswith("toInterval") or word in EVENTS.columns

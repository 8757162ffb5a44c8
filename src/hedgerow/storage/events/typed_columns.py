"""The columns with typed properties, computed by the engine from the JSON text.

Their expressions give the same result under every setting, because the engine also computes them
in the background, where it ignores the settings of a statement.
"""

from collections.abc import Iterator

from hedgerow.hogql.typed_properties import TEXT_MARK, TYPED_PROPERTIES, PropertyColumns

# Without the first, each subcolumn of a large part takes a megabyte of memory while it is written.
# The second keeps all columns of a part with fewer events in one file: hundreds of files for each
# small part made merges twice as expensive.
WRITE_SETTINGS = "min_columns_to_activate_adaptive_write_buffer = 1, min_rows_for_wide_part = 50000"

# Whole numbers of up to 15 digits have the same text as Int64 and as Float64.
_INTEGER = r"^-?[0-9]{1,15}$"
_FLOAT = r"^-?[0-9]+(\\.[0-9]+(e[+-]?[0-9]+)?|e[+-]?[0-9]+)$"
_VALUE = f"""multiIf(
        startsWith(pair.2, '"'), concat('"{TEXT_MARK}', substring(pair.2, 2)),
        match(pair.2, '{_INTEGER}'), concat(pair.2, '.0'),
        match(pair.2, '{_FLOAT}'), pair.2,
        toJSONString(concat('{TEXT_MARK}', pair.2)))"""


def list_column_names() -> list[str]:
    return [name for name, _ in _list_definitions()]


def build_column_ddl() -> list[str]:
    """Build the definitions, as in CREATE TABLE."""
    return [f"`{name}` {definition}" for name, definition in _list_definitions()]


def build_add_ddl(table: str, on_cluster: str = "") -> str:
    """Build the statement that adds the columns to a table of an older version. It returns at once:
    rows that exist get their values when they are read, merged or moved."""
    added = ", ".join(f"ADD COLUMN IF NOT EXISTS {each}" for each in build_column_ddl())
    return f"ALTER TABLE {table}{on_cluster} {added}"


def build_setting_ddl(table: str, on_cluster: str = "") -> str:
    return f"ALTER TABLE {table}{on_cluster} MODIFY SETTING {WRITE_SETTINGS}"


def _list_definitions() -> Iterator[tuple[str, str]]:
    """List the columns with their type and expression. They are compressed quickly and not well,
    because that decides how long a query takes."""
    for columns in TYPED_PROPERTIES.values():
        members = ", ".join(f"`{key}` Nullable(String)" for key in columns.common_keys)
        common = f"Tuple({members})"
        extracted = f"JSONExtract({columns.text}, '{common}')"
        yield columns.common, f"{common} MATERIALIZED {extracted} CODEC(LZ4)"
        other = f"JSON(max_dynamic_paths = {columns.max_paths})"
        yield columns.other, f"{other} MATERIALIZED {_build_other(columns, other)} CODEC(LZ4)"


def _build_other(columns: PropertyColumns, type_name: str) -> str:
    """Build the expression of the JSON column. It never fails: a text that is not a JSON object, or
    that repeats a key, which Hedgerow never stores, gives an empty object, which the engine puts
    below each NULL."""
    keys = ", ".join(f"'{key}'" for key in (*columns.common_keys, *columns.text_keys))
    pairs = (
        f"arrayFilter(pair -> pair.2 != 'null' AND pair.1 NOT IN ({keys}),"
        f" JSONExtractKeysAndValuesRaw({columns.text}))"
    )
    members = f"arrayMap(pair -> concat(toJSONString(pair.1), ':', {_VALUE}), {pairs})"
    flat = f"concat('{{', arrayStringConcat({members}, ','), '}}')"
    return f"assumeNotNull(accurateCastOrNull({flat}, '{type_name}'))"

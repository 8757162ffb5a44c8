"""HogQL: parse a query, resolve its names, print it as ClickHouse SQL."""

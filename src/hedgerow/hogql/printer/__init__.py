"""The HogQL printer: syntax tree to ClickHouse SQL with bound parameters."""

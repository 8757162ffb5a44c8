"""Prepare a definition that a client sends for its validation."""

from typing import Any

from hedgerow.filters.validate import check_patterns, collect_patterns
from hedgerow.lib.threads import run_in_thread


async def compile_patterns(definition: Any) -> None:
    """Compile the regular expressions of a definition in a thread; validation finds them compiled.

    Validation runs in the transaction that stores the definition. On SQLite all other changes wait
    for it, and 200 regular expressions take up to two seconds.
    """
    patterns = collect_patterns(definition)
    if patterns:
        await run_in_thread(lambda: check_patterns(patterns))

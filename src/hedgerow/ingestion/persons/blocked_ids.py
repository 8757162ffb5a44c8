"""Distinct ids that client bugs produce. Merging by them would join unrelated persons."""

# PostHog's lists.
_CASE_INSENSITIVE = frozenset(
    {
        "anonymous",
        "guest",
        "distinctid",
        "distinct_id",
        "id",
        "not_authenticated",
        "email",
        "undefined",
        "true",
        "false",
    }
)
_CASE_SENSITIVE = frozenset({"[object Object]", "NaN", "None", "none", "null", "0", "undefined"})


def is_blocked_id(distinct_id: str) -> bool:
    """Whether persons must not be merged by this id. Quotes around the id are ignored."""
    bare = distinct_id
    if len(bare) > 1 and bare[0] == bare[-1] and bare[0] in "'\"":
        bare = bare[1:-1]
    return not bare.strip() or bare in _CASE_SENSITIVE or bare.lower() in _CASE_INSENSITIVE

"""Distinct ids that a mistake in somebody's code brings, and that would make one person of many."""

# PostHog's lists.
_IN_ANY_CASE = frozenset(
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
_AS_WRITTEN = frozenset({"[object Object]", "NaN", "None", "none", "null", "0", "undefined"})


def is_illegal(distinct_id: str) -> bool:
    """Whether nobody may be merged by this id. Quotes around it do not make it better."""
    bare = distinct_id
    if len(bare) > 1 and bare[0] == bare[-1] and bare[0] in "'\"":
        bare = bare[1:-1]
    return not bare.strip() or bare in _AS_WRITTEN or bare.lower() in _IN_ANY_CASE

from hedgerow.ingestion.cookieless.visits import (
    MAX_IDENTIFY_UUIDS,
    MAX_SESSIONS,
    SESSION_INACTIVITY_MS,
    Visit,
    VisitorState,
    apply_visits,
)

NOW_MS = 1_794_744_000_000


def visit(
    number: int, at_ms: int = NOW_MS, *, is_identify: bool = False, is_anonymous: bool = True
) -> Visit:
    return Visit(
        device="device",
        day="2026-11-15",
        uuid=f"uuid {number}",
        at_ms=at_ms,
        is_identify=is_identify,
        is_anonymous=is_anonymous,
        new_session_id=f"session {number}",
    )


def identify(number: int) -> Visit:
    return visit(number, is_identify=True, is_anonymous=False)


def test_session_ends_after_inactivity() -> None:
    states: dict[str, VisitorState] = {}
    last = NOW_MS + SESSION_INACTIVITY_MS
    visits = [visit(1), visit(2, last), visit(3, last + SESSION_INACTIVITY_MS + 1)]
    sessions = [session for _, session in apply_visits(states, visits)]
    assert sessions == ["session 1", "session 1", "session 3"]


def test_late_event_does_not_end_a_session() -> None:
    states: dict[str, VisitorState] = {}
    apply_visits(states, [visit(1), visit(2, NOW_MS - SESSION_INACTIVITY_MS)])
    ((_, session),) = apply_visits(states, [visit(3, NOW_MS + SESSION_INACTIVITY_MS)])
    assert session == "session 1"


def test_visitor_is_another_one_after_logging_out() -> None:
    """Anonymous, login, identified, logout, anonymous again, second login."""
    user = visit(3, is_anonymous=False)
    found = apply_visits({}, [visit(1), identify(2), user, visit(4), identify(5), visit(6)])
    assert [number for number, _ in found] == [0, 0, 0, 1, 1, 2]
    sessions = [session for _, session in found]
    assert sessions == ["session 1"] * 3 + ["session 4"] * 2 + ["session 6"]


def test_repeated_identify_counts_once() -> None:
    states: dict[str, VisitorState] = {}
    assert [n for n, _ in apply_visits(states, [identify(1), identify(1), visit(2)])] == [0, 0, 1]


def test_identified_visitor_of_another_day_has_a_number() -> None:
    assert apply_visits({}, [visit(1, is_anonymous=False)]) == [(0, "session 1")]


def test_state_is_bounded() -> None:
    states: dict[str, VisitorState] = {}
    apply_visits(states, [each for n in range(500) for each in (identify(n), visit(n))])
    state = states["device"]
    assert state.identify_count == 500
    assert len(state.identify_uuids) == MAX_IDENTIFY_UUIDS
    assert len(state.sessions) == MAX_SESSIONS

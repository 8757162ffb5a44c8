"""The state of cookieless visitors during a day: how often they logged in, and their sessions."""

from collections.abc import MutableMapping, Sequence

import msgspec

SESSION_INACTIVITY_MS = 30 * 60 * 1000
# A repeated event must not count twice; repetitions arrive soon.
MAX_IDENTIFY_UUIDS = 20
MAX_SESSIONS = 2


class Visit(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a visitor. `device` is the hash of the visitor. `new_session_id` is used if the
    event begins a session."""

    device: str
    day: str
    uuid: str
    at_ms: int
    is_identify: bool
    is_anonymous: bool
    new_session_id: str


class Session(msgspec.Struct, frozen=True, array_like=True):
    id: str
    last_event_ms: int


class VisitorState(msgspec.Struct, kw_only=True):
    """`identify_count` is how often the visitor was identified, `sessions` are by that number."""

    identify_count: int = 0
    identify_uuids: list[str] = []
    sessions: dict[int, Session] = {}


def apply_visits(
    states: MutableMapping[str, VisitorState], visits: Sequence[Visit]
) -> list[tuple[int, str]]:
    """Update the states of visitors, by device. Returns for each visit how often the visitor had
    been identified before, and the session id."""
    return [_apply(states.setdefault(visit.device, VisitorState()), visit) for visit in visits]


def _apply(state: VisitorState, visit: Visit) -> tuple[int, str]:
    if visit.is_identify and visit.uuid not in state.identify_uuids:
        state.identify_uuids = [*state.identify_uuids, visit.uuid][-MAX_IDENTIFY_UUIDS:]
        state.identify_count += 1
    # An identified visitor remains the one from before the event that identified them.
    number = state.identify_count if visit.is_anonymous else max(0, state.identify_count - 1)
    session = state.sessions.get(number)
    if session is None or visit.at_ms - session.last_event_ms > SESSION_INACTIVITY_MS:
        session = Session(visit.new_session_id, visit.at_ms)
    last_event_ms = max(visit.at_ms, session.last_event_ms)
    sessions = {**state.sessions, number: Session(session.id, last_event_ms)}
    state.sessions = {each: sessions[each] for each in sorted(sessions)[-MAX_SESSIONS:]}
    return number, session.id

"""Shares of the inbox: a project cannot fill it for the others."""

from collections import Counter

from hedgerow.ingestion.backpressure import FULL_INBOX, FULL_SHARE, AdmissionControl
from hedgerow.ingestion.progress import Progress
from hedgerow.ingestion.store import InboxBacklog
from hedgerow.projects.model import ProjectId

ONE, TWO, THREE = ProjectId(1), ProjectId(2), ProjectId(3)
CAPACITY = 120


class Inbox:
    """Admission control with the progress that it reads."""

    def __init__(self, *, projects: int = 3) -> None:
        self.progress = Progress()
        self.refused: Counter[ProjectId] = Counter()
        self.admission = AdmissionControl(
            self.progress,
            lambda: 100,
            max_waiting=CAPACITY,
            min_free_bytes=0,
            has_several_projects=lambda: projects > 1,
            on_refusal=self._count,
        )

    def _count(self, project_id: ProjectId) -> None:
        self.refused[project_id] += 1

    def send(self, project_id: ProjectId, events: int) -> int:
        """Send single events, and return how many are accepted."""
        accepted = 0
        for _ in range(events):
            if self.admission.rejection_reason(project_id) is None:
                self.progress.accept(project_id, ["ann"])
                accepted += 1
        return accepted

    def store(self, project_id: ProjectId, events: int) -> None:
        self.progress.mark_processed({project_id: events})
        self.progress.mark_stored({project_id: events})


def test_one_project_gets_half_of_the_inbox() -> None:
    inbox = Inbox()
    assert inbox.send(ONE, 1000) == CAPACITY // 2
    assert inbox.admission.rejection_reason(ONE) == FULL_SHARE
    assert inbox.admission.rejection_reason(TWO) is None
    assert inbox.refused == {ONE: 1000 - CAPACITY // 2 + 1}


def test_there_is_always_a_place_for_another_project() -> None:
    inbox = Inbox()
    assert inbox.send(ONE, 1000) == 60
    assert inbox.send(TWO, 1000) == 30
    assert inbox.send(THREE, 1000) == 15
    assert inbox.admission.rejection_reason(ProjectId(4)) is None


def test_only_project_may_fill_the_inbox() -> None:
    inbox = Inbox(projects=1)
    assert inbox.send(ONE, 1000) == CAPACITY
    assert inbox.admission.rejection_reason(ONE) == FULL_INBOX
    assert not inbox.refused


def test_stored_events_make_space_for_the_project() -> None:
    inbox = Inbox()
    inbox.send(ONE, 1000)
    inbox.send(TWO, 10)
    inbox.store(ONE, 40)
    assert inbox.admission.rejection_reason(ONE) is None
    inbox.store(ONE, 20)
    inbox.store(TWO, 10)
    assert inbox.send(TWO, 1000) == CAPACITY // 2
    assert inbox.send(ONE, 1000) == CAPACITY // 4


def test_events_of_other_processes_reduce_the_share() -> None:
    inbox = Inbox()
    inbox.send(ONE, 20)
    inbox.progress.observe({ONE: 20}, InboxBacklog(unprocessed={ONE: 20, THREE: 79}))
    assert inbox.admission.rejection_reason(ONE) is None
    inbox.progress.observe({ONE: 20}, InboxBacklog(unprocessed={ONE: 20, THREE: 80}))
    assert inbox.admission.rejection_reason(ONE) == FULL_SHARE
    assert inbox.admission.rejection_reason(TWO) is None

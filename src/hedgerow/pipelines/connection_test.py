"""The job that looks whether the other side answers: one sample event for a destination, the first
word with a source for an import."""

from hedgerow.kit.clock import Clock
from hedgerow.pipelines.deliveries import LogLevel, LogLine
from hedgerow.pipelines.running import Held, JobProblem, Step
from hedgerow.pipelines.trial import Sample, Trials, reason_of


class ConnectionTest:
    def __init__(self, trials: Trials, clock: Clock) -> None:
        self._trials = trials
        self._clock = clock

    async def run(self, held: Held) -> None:
        trial = await self._trials.test(held.record, Sample(), self._clock())
        if reason := reason_of(trial.outcome):
            raise JobProblem(reason)
        line = LogLine(level=LogLevel.INFO, message="The other side answers.")
        await held.save(Step(cursor=None, done=1, total=1, logs=[line]))

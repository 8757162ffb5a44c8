"""The job that looks whether the other side answers: one sample event for a destination, the first
word with a source for an import."""

from hedgerow.lib.clock import Clock
from hedgerow.pipelines.deliveries import LogLevel, LogLine
from hedgerow.pipelines.imports.run import Importing
from hedgerow.pipelines.model import JobProblem
from hedgerow.pipelines.running import Held, Step
from hedgerow.pipelines.trial import Sample, Trials, reason_of


class ConnectionTest:
    def __init__(self, trials: Trials, importing: Importing, clock: Clock) -> None:
        self._trials = trials
        self._importing = importing
        self._clock = clock

    async def run(self, held: Held) -> None:
        if held.component.reach is not None:
            await held.component.reach(held.settings, self._importing.around(held))
        else:
            trial = await self._trials.test(held.record, Sample(), self._clock())
            if reason := reason_of(trial.outcome):
                raise JobProblem(reason)
        line = LogLine(level=LogLevel.INFO, message="The other side answers.")
        await held.save(Step(cursor=None, done=1, total=1, logs=[line]))

"""Experiments, joined with their storage, their flags and the events that their results count."""

from dataclasses import dataclass

from hedgerow.app.reading import EventReading
from hedgerow.experiments.experiments import Experiments
from hedgerow.experiments.queries import ExperimentQueries
from hedgerow.experiments.results import ExperimentResults
from hedgerow.flags.board import FlagCache
from hedgerow.storage.database import Database
from hedgerow.storage.experiments import ExperimentRecords
from hedgerow.storage.flags import FlagRecords


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedExperiments:
    experiments: Experiments
    results: ExperimentResults


def join_experiments(
    database: Database, flag_records: FlagRecords, flags: FlagCache, reading: EventReading
) -> JoinedExperiments:
    """From now on the query endpoint answers about them as well."""
    experiments = Experiments(ExperimentRecords(database, flag_records), flags)
    results = ExperimentResults(reading.reading, reading.freshness, reading.state)
    reading.queries.learn(ExperimentQueries(experiments, results).readers())
    return JoinedExperiments(experiments=experiments, results=results)

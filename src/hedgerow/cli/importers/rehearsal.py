"""Apply an import to a copy of the target's definitions, so that the plan names what the service
would reject. It uses the models and rules of the service itself.
"""

from dataclasses import replace
from datetime import datetime
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.experiments.experiments import build_new_experiment
from hedgerow.experiments.known_fields import check_document_fields
from hedgerow.experiments.store import ExperimentWriteContext
from hedgerow.experiments.validate import CRITERIA, METRICS, validate_queries
from hedgerow.experiments.variants import FlagEditor
from hedgerow.flags.early_access import (
    EarlyAccessFeature,
    FeatureContext,
    FeatureStage,
    build_new_feature,
)
from hedgerow.flags.edits import apply_fields, drop_unchanged_filters
from hedgerow.flags.flags import new_flag
from hedgerow.flags.model import Bucketing, Flag, FlagDefinitions, FlagId, Runtime
from hedgerow.flags.store import FlagWrite
from hedgerow.http.api.cohorts import CohortBody
from hedgerow.http.api.experiments import NewExperiment
from hedgerow.http.api.flags.early_access import NewFeature
from hedgerow.http.api.flags.flags import FlagBody
from hedgerow.http.api.surveys import NewSurvey
from hedgerow.http.payload.fields import validate
from hedgerow.importers.matching import ImportAction, ImportDecision, Item, TargetState
from hedgerow.importers.model import ResourceKind
from hedgerow.persons.cohorts import build_new_cohort, validate_definition
from hedgerow.persons.model import Cohort, CohortId
from hedgerow.projects.activity import COMMAND_LINE
from hedgerow.projects.model import Project
from hedgerow.surveys.model import Survey
from hedgerow.surveys.store import SurveyWriteContext
from hedgerow.surveys.surveys import build_new_survey, new_survey


class ImportRehearsal:
    """A copy of the target project, to which the items of an import are added in order."""

    def __init__(self, project: Project, state: TargetState, now: datetime) -> None:
        self._project = project
        self._now = now
        self._group_types = dict(state.group_types)
        items = state.items
        self._flags = {
            FlagId(each["id"]): self._read_flag(each) for each in items.get(ResourceKind.FLAG, ())
        }
        self._cohorts = {
            CohortId(each["id"]): self._read_cohort(each)
            for each in items.get(ResourceKind.COHORT, ())
        }
        self._surveys = {
            each["id"]: self._read_survey(each) for each in items.get(ResourceKind.SURVEY, ())
        }
        self._features = {
            each["id"]: self._read_feature(each) for each in items.get(ResourceKind.FEATURE, ())
        }
        self._experiment_count = len(items.get(ResourceKind.EXPERIMENT, ()))

    def explain_rejection(self, decision: ImportDecision, id: Any, *, overwrite: bool) -> str:
        """Apply a decision, with the id that the item gets. Returns why the service would reject
        it, "" if it would not."""
        try:
            if decision.action is ImportAction.CREATE:
                self._create(decision.item.kind, dict(decision.body), id)
            elif decision.action is ImportAction.DIFFERS and overwrite:
                self._change(decision)
        except Invalid as error:
            return f"{error.attr}: {error.detail}" if error.attr else error.detail
        return ""

    def _create(self, kind: ResourceKind, body: dict[str, Any], id: Any) -> None:
        match kind:
            case ResourceKind.FLAG:
                self._create_flag(body, FlagId(id))
            case ResourceKind.COHORT:
                self._create_cohort(body, CohortId(id))
            case ResourceKind.FEATURE:
                self._create_feature(body, str(id))
            case ResourceKind.SURVEY:
                self._create_survey(body, str(id))
            case ResourceKind.EXPERIMENT:
                self._create_experiment(body)

    def _definitions(self) -> FlagDefinitions:
        return FlagDefinitions(
            generation=0,
            flags=list(self._flags.values()),
            cohorts=list(self._cohorts.values()),
            group_types=self._group_types,
            timezone=self._project.timezone,
        )

    def _store(self, write: FlagWrite | None) -> None:
        if write is not None:
            self._flags[write.flag.id] = write.flag

    def _create_flag(self, body: dict[str, Any], id: FlagId) -> None:
        blank = new_flag(self._project, COMMAND_LINE, self._now)
        fields = drop_unchanged_filters(blank, validate(FlagBody, body).to_fields())
        flag = apply_fields(blank, fields, self._definitions())
        self._flags[id] = replace(flag, id=id)

    def _create_cohort(self, body: dict[str, Any], id: CohortId) -> None:
        fields = validate(CohortBody, body).to_fields()
        cohort = build_new_cohort(self._project.id, fields, self._cohorts, COMMAND_LINE, self._now)
        self._cohorts[id] = replace(cohort, id=id)

    def _create_feature(self, body: dict[str, Any], id: str) -> None:
        model = validate(NewFeature, body)
        context = FeatureContext(definitions=self._definitions(), features=self._features)
        write = build_new_feature(
            self._project,
            context,
            model.to_fields(),
            model.feature_flag_id,
            COMMAND_LINE,
            self._now,
        )
        self._store(write.flag)
        self._features[id] = write.feature

    def _create_survey(self, body: dict[str, Any], id: str) -> None:
        edit = validate(NewSurvey, body).to_edit()
        context = SurveyWriteContext(definitions=self._definitions(), surveys=self._surveys)
        write = build_new_survey(self._project, context, edit, COMMAND_LINE, self._now)
        self._surveys[id] = replace(write.survey, id=id)

    def _create_experiment(self, body: dict[str, Any]) -> None:
        model = validate(NewExperiment, body)
        edit = model.to_edit(self._now)
        check_document_fields(edit)
        documents = {name: edit[name] for name in (CRITERIA, *METRICS) if name in edit}
        cohorts = list(self._cohorts.values())
        # Actions are not imported, so metrics with the ids of actions are left out.
        validate_queries(documents, self._project, cohorts, (), self._now)
        definitions = self._definitions()
        context = ExperimentWriteContext(
            definitions=definitions,
            experiment=lambda _: None,
            flag=self._flags.get,
            count=self._experiment_count,
        )
        editor = FlagEditor(definitions=definitions, actor=COMMAND_LINE, now=self._now)
        write = build_new_experiment(self._project, context, model.feature_flag_key, edit, editor)
        self._store(write.flag)
        self._experiment_count += 1

    def _change(self, decision: ImportDecision) -> None:
        """Apply the changes of an existing flag or cohort. Other changes are not rehearsed."""
        changes = {
            name: decision.body[name] for name in decision.differences if name in decision.body
        }
        if decision.item.kind is ResourceKind.FLAG:
            before = self._flags[FlagId(decision.id)]
            fields = drop_unchanged_filters(before, validate(FlagBody, changes).to_fields())
            self._flags[before.id] = apply_fields(before, fields, self._definitions())
        elif decision.item.kind is ResourceKind.COHORT and "filters" in changes:
            definition = changes["filters"]["properties"]
            validate_definition(definition, CohortId(decision.id), self._cohorts)

    def _read_flag(self, item: Item) -> Flag:
        blank = new_flag(self._project, COMMAND_LINE, self._now)
        return replace(
            blank,
            id=FlagId(item["id"]),
            key=item["key"],
            name=item["name"],
            filters=item["filters"],
            active=item["active"],
            archived=item["archived"],
            ensure_experience_continuity=item["ensure_experience_continuity"],
            is_remote_configuration=item["is_remote_configuration"],
            has_encrypted_payloads=item["has_encrypted_payloads"],
            evaluation_runtime=Runtime(item["evaluation_runtime"]),
            bucketing_identifier=Bucketing(item["bucketing_identifier"]),
        )

    def _read_cohort(self, item: Item) -> Cohort:
        return Cohort(
            id=CohortId(item["id"]),
            project_id=self._project.id,
            name=item["name"],
            description=item["description"],
            is_static=item["is_static"],
            definition=item["filters"]["properties"],
            deleted=False,
            created_by="",
            created_at=self._now,
            updated_at=self._now,
        )

    def _read_survey(self, item: Item) -> Survey:
        """Return what other surveys depend on: the name."""
        survey = new_survey(self._project, COMMAND_LINE, self._now)
        return replace(survey, id=item["id"], name=item["name"])

    def _read_feature(self, item: Item) -> EarlyAccessFeature:
        """Return what other features depend on: the flag."""
        return EarlyAccessFeature(
            id=item["id"],
            project_id=self._project.id,
            flag_id=FlagId(item["feature_flag"]["id"]),
            name=item["name"],
            description="",
            stage=FeatureStage(item["stage"]),
            documentation_url="",
            payload={},
            created_at=self._now,
        )

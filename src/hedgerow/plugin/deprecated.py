"""Import paths and names of component packages from before `hedgerow.plugin`.

They work for one release, with a DeprecationWarning. Remove this module and its users after it.
"""

import sys
import warnings
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

_FACE = "hedgerow.plugin"

# Old module: old name: name in hedgerow.plugin.
_OLD_NAMES: Mapping[str, Mapping[str, str]] = {
    "hedgerow.pipelines.answers": {
        "outcome_of": "classify_response",
        "retry_after_s": "parse_retry_after",
    },
    "hedgerow.pipelines.component": {
        "Adopt": "MigrateSettings",
        "Component": "Component",
        "JobField": "JobField",
        "JobOffer": "JobOffer",
        "Origin": "SettingsOrigin",
        "SettingField": "SettingField",
        "SettingType": "SettingType",
        "Settings": "Settings",
    },
    "hedgerow.pipelines.components": {},
    "hedgerow.pipelines.components.fields": {
        "CONCERNED": "TRANSFORMATION_FILTER_SETTINGS",
        "DELIVERY": "DELIVERY_SETTINGS",
        "EVENT_FILTER": "EVENT_FILTER",
        "FILTERS": "FILTER_SETTINGS",
        "KEEP_ORDER": "KEEP_ORDER",
        "MAPPING": "MAPPING_SETTING",
        "PROPERTY_FILTER": "PROPERTY_FILTER",
        "REPLAY": "REPLAY_JOB",
        "RUN_IMPORT": "IMPORT_JOB",
        "SAMPLING": "SAMPLING",
        "SCHEDULE": "SCHEDULE_SETTING",
        "TEST_CONNECTION": "TEST_CONNECTION_JOB",
        "batching": "batch_settings",
        "check_address": "check_url",
        "check_between": "check_range",
        "file_format": "file_format_setting",
    },
    "hedgerow.pipelines.database_address": {
        "DatabaseAddress": "DatabaseAddress",
        "database_address": "parse_database_address",
    },
    "hedgerow.pipelines.imports.model": {
        "Around": "ImportContext",
        "BadRow": "BadRow",
        "Portion": "ImportBatch",
        "Query": "DatabaseQuery",
        "SourceRow": "SourceRow",
    },
    "hedgerow.pipelines.model": {"FileMark": "FileVersion", "JobProblem": "JobError"},
    "hedgerow.pipelines.payload": {"payload_of": "build_payload"},
    "hedgerow.pipelines.sending": {
        "CannotSend": "TransportError",
        "Failed": "Failed",
        "FilePlace": "FileTarget",
        "Inserted": "InsertResult",
        "Outbound": "HttpClient",
        "Outcome": "Outcome",
        "Request": "Request",
        "Response": "Response",
        "Sent": "Delivered",
        "Stream": "StreamedResponse",
        "Surroundings": "DeliveryContext",
        "TablePlace": "TableTarget",
    },
    "hedgerow.pipelines.signing": {"signed_headers": "sign_webhook"},
    "hedgerow.pipelines.templates": {
        "TemplateProblem": "TemplateError",
        "compiled": "compile_template",
    },
    "hedgerow.pipelines.templated": {"deliver_made": "deliver_rendered"},
    "hedgerow.pipelines.transforming": {
        "CannotTransform": "TransformError",
        "Incoming": "IncomingEvent",
        "MakeTransform": "BuildTransform",
        "Transform": "Transform",
    },
}
# Classes whose keywords were renamed: old keyword: new keyword.
_OLD_KEYWORDS: Mapping[str, Mapping[str, str]] = {
    "BadRow": {"place": "location"},
    "Failed": {"is_events_fault": "event_rejected"},
    "SourceRow": {"place": "location"},
}


def warn_renamed(old: str, new: str) -> None:
    """Warn the caller's caller that a name of the plugin API was replaced."""
    message = f"{old} is deprecated and will be removed in the next release. Use {new}."
    warnings.warn(message, DeprecationWarning, stacklevel=3)


def find_old_name(module: str, name: str) -> Any:
    """Return what a name of an old module means now. Raises AttributeError for any other name."""
    new = _OLD_NAMES[module].get(name)
    if new is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    warn_renamed(f"{module}.{name}", f"{_FACE}.{new}")
    found = getattr(import_module(_FACE), new)
    keywords = _OLD_KEYWORDS.get(name)
    return found if keywords is None else _accept_keywords(found, keywords)


class _OldModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        return find_old_name(self.__name__, name)


class _OldClass(type):
    """Lets `isinstance` with an old class accept instances of the new one."""

    _new: type

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls._new)


def _accept_keywords(new: type, keywords: Mapping[str, str]) -> type:
    def create(_: type, *args: Any, **given: Any) -> Any:
        return new(*args, **{keywords.get(key, key): value for key, value in given.items()})

    return _OldClass(new.__name__, (), {"__new__": create, "_new": new})


def install_old_modules() -> None:
    """Make the old import paths work. Called once, when `hedgerow.pipelines` is imported."""
    for name in _OLD_NAMES:
        if name != "hedgerow.pipelines.model":  # still a module, with an alias of its own
            module = _OldModule(name)
            module.__path__ = []
            sys.modules[name] = module

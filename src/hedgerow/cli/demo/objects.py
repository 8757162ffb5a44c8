"""What a product team makes in the demo: flags, cohorts, surveys, experiments and the like.

Each value is the body of a request to the API.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from hedgerow.cli.demo.visits import (
    EDITOR_FLAG,
    EDITOR_PERCENT,
    REMINDER_DAYS,
    REMINDER_FLAG,
    REMINDER_VARIANTS,
    SIGNUP_DAYS,
    SIGNUP_FLAG,
    SURVEY_DAYS,
)
from hedgerow.lib.clock import format_iso

Body = dict[str, Any]

ACTIONS: Sequence[Body] = (
    {
        "name": "Got paid",
        "description": "A client paid an invoice that was sent with Fernleaf.",
        "steps": [{"event": "invoice paid"}],
        "tags": ["revenue"],
    },
    {
        "name": "Looked at prices",
        "description": "Opened the page with our plans.",
        "steps": [{"event": "$pageview", "url": "/pricing", "url_matching": "contains"}],
    },
)
DEFINITIONS: Mapping[str, str] = {
    "signed up": "A visitor created an account. Sent by the signup form.",
    "created invoice": "An invoice was saved, and not sent yet.",
    "sent invoice": "An invoice left by mail. `amount` is in `currency`.",
    "invoice paid": "The bank reported the payment. `days` is the time since it was sent.",
    "upgraded plan": "A studio moved to a paid plan.",
    "exported report": "The figures of a month were downloaded.",
    "invited teammate": "Someone was invited to the studio.",
    "searched help": "A search in the help pages. `term` is what was searched.",
}
PROPERTIES: Mapping[str, str] = {
    "amount": "Total of the invoice with taxes, in `currency`.",
    "currency": "Three letters, such as EUR.",
    "source": "The site that the person came from.",
}
# Nothing is sent: a sent invoice has no `days`, so that its body cannot be rendered. If someone
# corrects that, the address is one of those for documentation, which Hedgerow refuses.
FAILING_DESTINATION: Body = {
    "url": "https://203.0.113.10/hooks/crm",
    "events": ["sent invoice"],
    "body": {
        "client": "{{ event.distinct_id }}",
        "amount_per_day": "{{ event.properties.amount | divided_by: event.properties.days }}",
    },
}


def build_cohorts() -> Mapping[str, Body]:
    """Cohorts by their name in `build_flags`. The static one gets its members later."""
    return {
        "paying": {
            "name": "Paying studios",
            "description": "People of studios on a paid plan.",
            "filters": _match_any(_person("plan", ["pro", "team"])),
        },
        "germany": {
            "name": "Studios in Germany",
            "filters": _match_any(_person("country", ["DE"])),
        },
        "testers": {
            "name": "Beta testers",
            "description": "People who answered our call in the newsletter.",
            "is_static": True,
        },
    }


def build_flags(cohorts: Mapping[str, int]) -> Sequence[Body]:
    """One flag of each kind. The first one is what the last one depends on."""
    return (
        {
            "key": EDITOR_FLAG,
            "name": "The new invoice editor, for more people each week",
            "tags": ["editor"],
            "filters": {
                "groups": [
                    {"properties": [_cohort(cohorts["testers"])], "rollout_percentage": 100},
                    {"properties": [], "rollout_percentage": EDITOR_PERCENT},
                ]
            },
        },
        {
            "key": "maintenance-banner",
            "name": "A banner before planned maintenance. Switch it on for everyone",
            "active": False,
            "filters": {"groups": [{"properties": [], "rollout_percentage": 100}]},
        },
        {
            "key": "pricing-page",
            "name": "Texts of the page with our plans",
            "tags": ["marketing"],
            "filters": {
                "groups": [{"properties": [], "rollout_percentage": 100}],
                "multivariate": {
                    "variants": [
                        {"key": "monthly", "name": "Monthly price first", "rollout_percentage": 50},
                        {"key": "yearly", "name": "Yearly price first", "rollout_percentage": 30},
                        {"key": "calculator", "name": "A calculator", "rollout_percentage": 20},
                    ]
                },
                "payloads": {
                    "monthly": '{"headline": "From 9 a month"}',
                    "yearly": '{"headline": "Two months free"}',
                    "calculator": '{"headline": "What would you save?", "steps": 3}',
                },
            },
        },
        {
            "key": "german-tax-export",
            "name": "Export for DATEV, for studios in Germany",
            "filters": {"groups": [{"properties": [_cohort(cohorts["germany"])]}]},
        },
        {
            "key": "large-studios",
            "name": "Approval of invoices, for studios with 20 people or more",
            "filters": {
                "aggregation_group_type_index": 0,
                "groups": [
                    {
                        "properties": [
                            {
                                "key": "size",
                                "operator": "gte",
                                "value": 20,
                                "type": "group",
                                "group_type_index": 0,
                            }
                        ],
                        "rollout_percentage": 100,
                    }
                ],
            },
        },
        {
            "key": "csv-import",
            "name": "Import of clients, for designers and owners on a paid plan",
            "filters": {
                "groups": [
                    {
                        "properties": [_cohort(cohorts["paying"]), _person("role", ["owner"])],
                        "rollout_percentage": 100,
                    },
                    {"properties": [_person("role", ["designer"])], "rollout_percentage": 25},
                ]
            },
        },
    )


def build_dependent_flag(editor_id: int) -> Body:
    depends = {"key": str(editor_id), "operator": "flag_evaluates_to", "value": True}
    return {
        "key": "invoice-templates",
        "name": "Templates in the new editor. Only for those who have the editor",
        "tags": ["editor"],
        "filters": {
            "groups": [{"properties": [{**depends, "type": "flag"}], "rollout_percentage": 50}]
        },
    }


def build_surveys(now: datetime) -> Sequence[Body]:
    """The first survey is the one that people answer."""
    return (
        {
            "name": "How likely are you to recommend us?",
            "type": "popover",
            "start_date": _days_ago(now, SURVEY_DAYS),
            "questions": [
                {
                    "type": "rating",
                    "question": "How likely are you to recommend Fernleaf?",
                    "display": "number",
                    "scale": 10,
                    "lowerBoundLabel": "unlikely",
                    "upperBoundLabel": "very likely",
                },
                {"type": "open", "question": "Why?", "optional": True},
            ],
            "conditions": {"url": "/dashboard", "urlMatchType": "icontains"},
        },
        {
            "name": "Why did you cancel?",
            "description": "A draft: shown on the page that cancels a plan.",
            "type": "popover",
            "questions": [
                {
                    "type": "single_choice",
                    "question": "Why did you cancel?",
                    "choices": ["Too expensive", "A feature is missing", "I use another app"],
                }
            ],
        },
    )


FEATURES: Sequence[Body] = (
    {
        "name": "Recurring invoices",
        "description": "Send the same invoice every month, without a click.",
        "stage": "beta",
        "documentation_url": "https://fernleaf.example/docs/recurring",
    },
    {"name": "Client portal", "description": "One page for each client.", "stage": "concept"},
)


def build_experiments(now: datetime) -> Sequence[Body]:
    """One with a winner, one without, and a draft."""
    return (
        {
            "name": "Shorter signup form",
            "description": "Do more visitors sign up if we ask for the mail address only?",
            "feature_flag_key": SIGNUP_FLAG,
            "start_date": _days_ago(now, SIGNUP_DAYS),
            "metrics": [
                {**_funnel("signed up"), "name": "Signed up"},
                {**_funnel("signed up", "created invoice"), "name": "Created an invoice"},
            ],
        },
        {
            "name": "Tone of reminders",
            "description": "Do clients pay sooner after a friendlier or a firmer reminder?",
            "feature_flag_key": REMINDER_FLAG,
            "start_date": _days_ago(now, REMINDER_DAYS),
            "parameters": {
                "feature_flag_variants": [
                    {"key": key, "rollout_percentage": share}
                    for key, share in REMINDER_VARIANTS.items()
                ]
            },
            "metrics": [
                {**_funnel("sent invoice", "invoice paid"), "name": "Paid"},
                {
                    "kind": "ExperimentMetric",
                    "metric_type": "mean",
                    "name": "Amount paid",
                    "source": {
                        "kind": "EventsNode",
                        "event": "invoice paid",
                        "math": "sum",
                        "math_property": "amount",
                    },
                },
            ],
        },
        {
            "name": "Yearly plan first",
            "description": "A draft. Decide on the metric before the launch.",
            "feature_flag_key": "yearly-plan-first",
            "metrics": [{**_funnel("upgraded plan"), "name": "Upgraded"}],
        },
    )


def build_annotations(now: datetime) -> Sequence[Body]:
    return [
        {"content": text, "date_marker": _days_ago(now, days), "scope": "project"}
        for text, days in (
            ("Fernleaf 2.4: the new signup form", SIGNUP_DAYS),
            ("Article in Studio Magazine", 17),
            ("Reminders by mail for everyone", REMINDER_DAYS),
        )
    ]


def _days_ago(now: datetime, days: float) -> str:
    return format_iso(now - timedelta(days=days))


def _person(key: str, values: Sequence[str]) -> Body:
    return {"key": key, "operator": "exact", "value": list(values), "type": "person"}


def _cohort(id: int) -> Body:
    return {"key": "id", "operator": "in", "value": id, "type": "cohort"}


def _match_any(*filters: Body) -> Body:
    return {"properties": {"type": "OR", "values": list(filters)}}


def _funnel(*events: str) -> Body:
    series = [{"kind": "EventsNode", "event": event} for event in events]
    return {"kind": "ExperimentMetric", "metric_type": "funnel", "series": series}

"""What the people of the demo do: visits with a weekly rhythm, and steps that some do not take.

Events are those that posthog-js and a server would send. Variants of flags are the ones that the
service computes for the same ids.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import accumulate
from random import Random
from typing import Any

from hedgerow.cli.demo.world import DemoPerson, make_uuid, pick
from hedgerow.flags.evaluation.bucket import bucket_position
from hedgerow.lib.clock import format_iso

HOST = "app.fernleaf.example"
# Monday to Sunday.
WEEKDAY_SHARES = (1.0, 1.05, 1.0, 0.95, 0.8, 0.3, 0.22)
HOURS = {
    "8": 5,
    "9": 10,
    "10": 12,
    "11": 11,
    "12": 6,
    "13": 8,
    "14": 11,
    "15": 11,
    "16": 9,
    "17": 6,
}
HOURS |= {"19": 2, "20": 3, "21": 2}
# Flags with their variants in percent, which objects.py creates.
SIGNUP_FLAG, SIGNUP_VARIANTS = "short-signup-form", {"control": 50, "test": 50}
REMINDER_FLAG, REMINDER_VARIANTS = "reminder-tone", {"control": 34, "friendly": 33, "firm": 33}
EDITOR_FLAG, EDITOR_PERCENT = "invoice-editor", 40
# How many of those who see the form of a variant sign up.
SIGNUP_RATES = {"control": 0.44, "test": 0.62}
SIGNUP_DAYS, REMINDER_DAYS, SURVEY_DAYS = 30.0, 9.0, 21.0
# How many of the newest events are moved into the last hour.
RECENT_EVENTS = 150
OPTED_IN = "$feature_enrollment/recurring-invoices"
COMMENTS = (
    "Sending an invoice takes a minute now.",
    "I miss recurring invoices.",
    "The export for our accountant is great.",
    "Reminders feel a bit stiff.",
    "Could it remember the tax rate of a client?",
    "Simple and fast, thank you!",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyIds:
    """The survey that people answer, with its questions: a rating and a text."""

    survey: str
    rating: str
    comment: str


@dataclass(slots=True, kw_only=True)
class Story:
    """The events of one person, while they are made."""

    random: Random
    person: DemoPerson
    now: datetime
    days: int
    survey: SurveyIds
    events: list[dict[str, Any]] = field(default_factory=list)
    user_id: str = ""
    session: str = ""

    def tell(self) -> list[dict[str, Any]]:
        """Return the events, none of them in the future."""
        if self.person.is_known:
            self._log_in(self.person.first_day)
            self._work(float(self.days), lifetime=self._draw_lifetime(60))
        elif (day := self._visit_first()) is not None:
            self._work(day, lifetime=self._draw_lifetime(24))
        now = format_iso(self.now)
        return [event for event in self.events if event["timestamp"] < now]

    def _draw_lifetime(self, mean_days: float) -> float:
        """How long an account is used. A fifth of all are given up within days."""
        if self.random.random() < 0.2:
            return self.random.random() * 3
        return self.random.expovariate(1 / mean_days)

    def _add(self, event: str, at: datetime, properties: Mapping[str, Any] | None = None) -> None:
        person = self.person
        is_user = bool(self.user_id)
        variant = choose_variant(SIGNUP_FLAG, person.visitor_id, SIGNUP_VARIANTS)
        self.events.append(
            {
                "event": event,
                "distinct_id": self.user_id or person.visitor_id,
                "timestamp": format_iso(at),
                "properties": {
                    "$lib": "web",
                    "$host": HOST,
                    "$browser": person.browser,
                    "$os": person.system,
                    "$device_type": person.device,
                    "$session_id": self.session,
                    f"$feature/{SIGNUP_FLAG}": variant,
                    **({"$groups": {"company": person.company.key}} if is_user else {}),
                    **(properties or {}),
                },
            }
        )

    def _view(self, path: str, at: datetime, properties: Mapping[str, Any] | None = None) -> None:
        place = {"$pathname": path, "$current_url": f"https://{HOST}{path}"}
        self._add("$pageview", at, {**place, **(properties or {})})

    def _call_flag(self, key: str, value: str | bool, at: datetime) -> None:
        called = {"$feature_flag": key, "$feature_flag_response": value}
        self._add("$feature_flag_called", at, {**called, f"$feature/{key}": value})

    def _visit_first(self) -> float | None:
        """Look around, and sign up or not. Returns the day of the signup."""
        random, day, person = self.random, self.person.first_day, self.person
        self.session = make_uuid(random)
        at = place_in_day(random, self.now - timedelta(days=day))
        if at >= self.now:  # later today
            at -= timedelta(days=1)
        day = (self.now - at) / timedelta(days=1)
        first = {"$referring_domain": person.source}
        self._view("/", at, {**first, "$set_once": {"$initial_referring_domain": person.source}})
        if random.random() < 0.62:
            self._view("/pricing", at + timedelta(minutes=1 + random.random()), first)
        if random.random() > 0.86:
            return None
        at += timedelta(minutes=3 + random.random() * 2)
        self._view("/signup", at, first)
        variant = choose_variant(SIGNUP_FLAG, person.visitor_id, SIGNUP_VARIANTS)
        rate = SIGNUP_RATES["control"]
        if day < SIGNUP_DAYS:
            self._call_flag(SIGNUP_FLAG, variant, at)
            rate = SIGNUP_RATES[variant]
        if random.random() > rate:
            return None
        at += timedelta(minutes=2)
        self._add("signed up", at, {"source": person.source, "role": person.role})
        self._log_in((self.now - at) / timedelta(days=1))
        return day

    def _log_in(self, days_ago: float) -> None:
        """Connect the visitor with the account, and describe the person."""
        person, company = self.person, self.person.company
        self.session = self.session or make_uuid(self.random)
        self.user_id = person.user_id
        at = self.now - timedelta(days=days_ago) + timedelta(seconds=2)
        described = {
            "email": person.email,
            "name": person.name,
            "role": person.role,
            "plan": company.plan,
            "country": company.country,
            "company": company.name,
            "signed_up_at": format_iso(at)[:10],
        }
        identified = {"$anon_distinct_id": person.visitor_id, "$set": described}
        self._add("$identify", at, identified)

    def _work(self, since: float, lifetime: float) -> None:
        """Visit on most working days until the account is given up or today is reached."""
        eagerness = 0.15 + self.random.random() * 0.5
        end = max(since - lifetime, -1.0)
        day = since
        while day > end:
            moment = self.now - timedelta(days=day)
            if self.random.random() < eagerness * WEEKDAY_SHARES[moment.weekday()]:
                self._work_a_day(place_in_day(self.random, moment))
            day -= 1

    def _work_a_day(self, at: datetime) -> None:
        random = self.random
        self.session = make_uuid(random)
        self._view("/dashboard", at)
        position = bucket_position(f"{EDITOR_FLAG}.".encode(), self.user_id.encode())
        self._call_flag(EDITOR_FLAG, position <= EDITOR_PERCENT / 100, at)
        for step in range(random.choices((0, 1, 2, 3), (3, 4, 2, 1))[0]):
            self._invoice(at + timedelta(minutes=4 + 9 * step + random.random() * 3))
        self._do_some_of_the_rest(at + timedelta(minutes=32))
        if (self.now - at) / timedelta(days=1) < SURVEY_DAYS and random.random() < 0.07:
            self._meet_survey(at + timedelta(minutes=41))

    def _invoice(self, at: datetime) -> None:
        """Create an invoice, send it, get paid: each step less often than the one before."""
        random = self.random
        amount = round(80 + random.expovariate(1 / 620), 2)
        invoice = {"invoice_id": f"F-{random.randrange(10_000, 99_999)}", "amount": amount}
        invoice["currency"] = {"GB": "GBP", "US": "USD", "NO": "NOK"}.get(
            self.person.company.country, "EUR"
        )
        self._view("/invoices/new", at)
        if random.random() < 0.18:
            return
        self._add("created invoice", at + timedelta(minutes=2), invoice)
        if random.random() < 0.2:
            return
        sent = at + timedelta(minutes=4)
        if (self.now - sent) / timedelta(days=1) < REMINDER_DAYS:
            variant = choose_variant(REMINDER_FLAG, self.user_id, REMINDER_VARIANTS)
            self._call_flag(REMINDER_FLAG, variant, sent)
        self._add("sent invoice", sent, {**invoice, "card_last4": f"{random.randrange(10_000):04}"})
        if random.random() < 0.7:
            days = random.expovariate(1 / 5)
            self._add("invoice paid", sent + timedelta(days=days), {**invoice, "days": round(days)})

    def _do_some_of_the_rest(self, at: datetime) -> None:
        random = self.random
        for event, share, properties in (
            ("exported report", 0.12, {"format": pick(random, {"pdf": 6, "csv": 4})}),
            ("searched help", 0.08, {"term": pick(random, {"tax": 4, "export": 3, "logo": 2})}),
            ("invited teammate", 0.05, {"role": pick(random, {"designer": 3, "accountant": 2})}),
            ("upgraded plan", 0.012, {"plan": pick(random, {"pro": 3, "team": 1})}),
        ):
            if random.random() < share:
                self._add(event, at, properties)
        if random.random() < 0.01:
            enrolled = {"$feature_flag": "recurring-invoices", "$feature_enrollment": True}
            self._add("$feature_enrollment_update", at, {**enrolled, "$set": {OPTED_IN: True}})

    def _meet_survey(self, at: datetime) -> None:
        random, ids = self.random, self.survey
        named = {"$survey_id": ids.survey, "$survey_name": "How likely are you to recommend us?"}
        self._add("survey shown", at, named)
        if random.random() < 0.5:
            rating = random.choices(range(11), (1, 0, 1, 1, 1, 3, 4, 8, 12, 11, 8))[0]
            answers: dict[str, Any] = {f"$survey_response_{ids.rating}": rating}
            if random.random() < 0.4:
                answers[f"$survey_response_{ids.comment}"] = random.choice(COMMENTS)
            answers["$set"] = {f"$survey_responded/{ids.survey}": True}
            self._add("survey sent", at + timedelta(seconds=40), {**named, **answers})
        elif random.random() < 0.5:
            done = {"$set": {f"$survey_dismissed/{ids.survey}": True}}
            self._add("survey dismissed", at + timedelta(seconds=8), {**named, **done})


def place_in_day(random: Random, day: datetime) -> datetime:
    """Return a moment in the day, mostly in working hours."""
    hour = int(pick(random, HOURS))
    return day.replace(hour=hour, minute=random.randrange(60), second=random.randrange(60))


def choose_variant(flag: str, id: str, variants: Mapping[str, int]) -> str:
    """Return the variant that the flag gives to an id."""
    position = bucket_position(f"{flag}.".encode(), id.encode(), b"variant") * 100
    ends = accumulate(variants.values())
    return next(key for key, end in zip(variants, ends, strict=True) if position < end)


def tell_stories(
    seed: int, persons: Sequence[DemoPerson], survey: SurveyIds, now: datetime, days: int
) -> list[dict[str, Any]]:
    """Return what everyone did, oldest first. Each person has random numbers of its own, so that
    they do the same whatever others do."""
    events = []
    for person in persons:
        random = Random(f"{seed} {person.user_id}")  # noqa: S311 - not for secrets
        story = Story(random=random, person=person, now=now, survey=survey, days=days)
        events += story.tell()
    events.sort(key=lambda event: str(event["timestamp"]))
    _move_into_last_hour(Random(seed), events[-RECENT_EVENTS:], now)  # noqa: S311 - as above
    return events


def _move_into_last_hour(random: Random, events: Sequence[dict[str, Any]], now: datetime) -> None:
    """Change the times, in the same order, so that something happens at any time of the day."""
    ages = sorted((random.random() for _ in events), reverse=True)
    for event, age in zip(events, ages, strict=True):
        event["timestamp"] = format_iso(now - age * timedelta(minutes=59))

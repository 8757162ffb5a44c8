"""Push notifications: each event to a topic of ntfy, on ntfy.sh or a server of one's own."""

from collections.abc import Sequence

from hedgerow.errors import Invalid
from hedgerow.events.model import Event
from hedgerow.pipelines.answers import outcome_of
from hedgerow.pipelines.component import Component, SettingField, Settings, SettingType
from hedgerow.pipelines.components.fields import DELIVERY, FILTERS, REPLAY, check_address
from hedgerow.pipelines.model import Family
from hedgerow.pipelines.payload import payload_of
from hedgerow.pipelines.sending import CannotSend, Failed, Outcome, Request, Surroundings
from hedgerow.pipelines.templates import TemplateProblem, compiled


def check(settings: Settings) -> None:
    """Called with settings in the clear, whenever they are set and before they are used."""
    check_address(settings, "server")
    if not settings["topic"].replace("-", "").replace("_", "").isalnum():
        raise Invalid("Letters, digits, - and _ only.", attr="config__topic")
    try:
        compiled(settings["message"])
    except TemplateProblem as problem:
        raise Invalid(str(problem), attr="config__message") from None


async def deliver(
    events: Sequence[Event], settings: Settings, around: Surroundings
) -> Sequence[Outcome]:
    """What became of each event. Hedgerow retries, counts and remembers."""
    return [await sent(event, settings, around) for event in events]


async def sent(event: Event, settings: Settings, around: Surroundings) -> Outcome:
    try:
        message = str(compiled(settings["message"])(payload_of(event)))
        request = Request(
            method="POST",
            url=f"{settings['server'].rstrip('/')}/{settings['topic']}",
            headers={"authorization": f"Bearer {settings['token']}"} if settings["token"] else {},
            body=message.encode(),
        )
        return outcome_of(await around.http.send(request), around.now)
    except TemplateProblem as problem:
        # Another try would change nothing, and it says nothing about the server.
        return Failed(reason=str(problem), is_final=True, is_events_fault=True)
    except CannotSend as reason:
        return Failed(reason=str(reason))


COMPONENT = Component(
    key="example/ntfy",  # its name for ever
    family=Family.DESTINATION,
    name="Push notification",
    description="Sends a push notification for each event through ntfy.",
    version="1.0.0",
    settings=(
        SettingField(key="server", name="Server", default="https://ntfy.sh"),
        SettingField(key="topic", name="Topic", required=True),
        SettingField(key="token", name="Access token", secret=True),
        SettingField(
            key="message",
            name="Message",
            type=SettingType.TEXT,
            default="{{ event.event }} by {{ event.distinct_id }}",
        ),
        *FILTERS,
        *DELIVERY,
    ),
    jobs=(REPLAY,),
    check=check,
    deliver=deliver,
)

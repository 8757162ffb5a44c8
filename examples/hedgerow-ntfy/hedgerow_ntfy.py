"""Push notifications: sends each event to a topic of ntfy, on ntfy.sh or on your own server."""

from collections.abc import Sequence

from hedgerow.plugin import (
    DELIVERY_SETTINGS,
    FILTER_SETTINGS,
    REPLAY_JOB,
    Component,
    DeliveryContext,
    Event,
    Failed,
    Family,
    Invalid,
    Outcome,
    Request,
    SettingField,
    Settings,
    SettingType,
    TemplateError,
    TransportError,
    build_payload,
    check_url,
    classify_response,
    compile_template,
)


def check(settings: Settings) -> None:
    """Raise Invalid for settings that cannot work. Called when they are set and before use."""
    check_url(settings, "server")
    if not settings["topic"].replace("-", "").replace("_", "").isalnum():
        raise Invalid("Use only letters, digits, - and _.", attr="config__topic")
    try:
        compile_template(settings["message"])
    except TemplateError as error:
        raise Invalid(str(error), attr="config__message") from None


async def deliver(
    events: Sequence[Event], settings: Settings, ctx: DeliveryContext
) -> Sequence[Outcome]:
    """Return one outcome for each event. Hedgerow retries, counts and stores."""
    return [await send(event, settings, ctx) for event in events]


async def send(event: Event, settings: Settings, ctx: DeliveryContext) -> Outcome:
    try:
        message = str(compile_template(settings["message"])(build_payload(event)))
        request = Request(
            method="POST",
            url=f"{settings['server'].rstrip('/')}/{settings['topic']}",
            headers={"authorization": f"Bearer {settings['token']}"} if settings["token"] else {},
            body=message.encode(),
        )
        return classify_response(await ctx.http.send(request), ctx.now)
    except TemplateError as error:
        # A retry would fail as well, and the server is not the cause.
        return Failed(reason=str(error), is_final=True, event_rejected=True)
    except TransportError as error:
        return Failed(reason=str(error))


COMPONENT = Component(
    key="example/ntfy",  # permanent
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
        *FILTER_SETTINGS,
        *DELIVERY_SETTINGS,
    ),
    jobs=(REPLAY_JOB,),
    check=check,
    deliver=deliver,
)

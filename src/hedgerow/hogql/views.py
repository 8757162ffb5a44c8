"""Views: tables that are queries over others. `sessions` has a row for each session of the events.

Names and rules follow PostHog: a session whose visitor sees one page for less than ten seconds and
clicks nothing is a bounce, and the channel is where the first page was opened from.
"""

from collections.abc import Mapping
from functools import cache

from hedgerow.hogql.ast import Select
from hedgerow.hogql.parser.parse import parse_select

BOUNCE_SECONDS = 10

_UTM = ("source", "medium", "campaign", "term", "content")
_SEARCH = "google|bing|duckduckgo|yahoo|ecosia|baidu|yandex|qwant|startpage|search.brave"
_SOCIAL = (
    "facebook|instagram|twitter|t.co$|x.com$|linkedin|lnkd.in|reddit|pinterest|tiktok|threads|"
    "mastodon|bsky|news.ycombinator"
)
_VIDEO = "youtube|vimeo|twitch|dailymotion"
_PAID_MEDIUM = "^(cpc|cpm|cpv|cpa|ppc|retargeting|paid.*)$"

_HAS_URL = "properties.`$current_url` IS NOT NULL"
_ENTRY_UTM = ",\n        ".join(
    f"ifNull(argMin(properties.utm_{name}, timestamp), '') AS `$entry_utm_{name}`" for name in _UTM
)

_SESSIONS = f"""
SELECT session_id, distinct_id, person_id, `$start_timestamp`, `$end_timestamp`,
    dateDiff('second', `$start_timestamp`, `$end_timestamp`) AS `$session_duration`,
    ifNull(entry_url, '') AS `$entry_current_url`, ifNull(end_url, '') AS `$end_current_url`,
    path(`$entry_current_url`) AS `$entry_pathname`, path(`$end_current_url`) AS `$end_pathname`,
    domain(`$entry_current_url`) AS `$entry_hostname`, `$entry_referring_domain`,
    {", ".join(f"`$entry_utm_{name}`" for name in _UTM)},
    `$pageview_count`, `$screen_count`, `$autocapture_count`, `$num_uniq_urls`,
    if(`$pageview_count` + `$screen_count` <= 1 AND `$autocapture_count` = 0
        AND `$session_duration` < {BOUNCE_SECONDS}, 1, 0) AS `$is_bounce`,
    multiIf(
        match(medium, '{_PAID_MEDIUM}') OR has_click_id, multiIf(
            match(origin, '{_SEARCH}'), 'Paid Search', match(origin, '{_SOCIAL}'), 'Paid Social',
            match(origin, '{_VIDEO}'), 'Paid Video', 'Paid Unknown'),
        medium IN ('email', 'e-mail', 'newsletter') OR origin = 'newsletter', 'Email',
        medium IN ('affiliate', 'partner'), 'Affiliate', medium = 'sms', 'SMS',
        medium = 'push', 'Push', medium = 'audio', 'Audio',
        match(origin, '{_SEARCH}') OR medium = 'organic', 'Organic Search',
        match(origin, '{_SOCIAL}') OR medium = 'social', 'Organic Social',
        match(origin, '{_VIDEO}') OR medium = 'video', 'Organic Video',
        origin IN ('', '$direct'), 'Direct', 'Referral'
    ) AS `$channel_type`
FROM (
    SELECT `$session_id` AS session_id, any(distinct_id) AS distinct_id,
        any(person_id) AS person_id, min(timestamp) AS `$start_timestamp`,
        max(timestamp) AS `$end_timestamp`,
        argMinIf(properties.`$current_url`, timestamp, {_HAS_URL}) AS entry_url,
        argMaxIf(properties.`$current_url`, timestamp, {_HAS_URL}) AS end_url,
        ifNull(argMin(properties.`$referring_domain`, timestamp), '') AS `$entry_referring_domain`,
        {_ENTRY_UTM},
        countIf(event = '$pageview') AS `$pageview_count`,
        countIf(event = '$screen') AS `$screen_count`,
        countIf(event = '$autocapture') AS `$autocapture_count`,
        uniqExactIf(properties.`$current_url`, {_HAS_URL}) AS `$num_uniq_urls`,
        lower(`$entry_utm_medium`) AS medium,
        lower(if(`$entry_utm_source` != '', `$entry_utm_source`, `$entry_referring_domain`))
            AS origin,
        max(ifNull(properties.gclid, '') != '' OR ifNull(properties.gad_source, '') != '')
            AS has_click_id
    FROM events WHERE notEmpty(`$session_id`)
    GROUP BY session_id
)
"""  # noqa: S608 - ours

VIEWS: Mapping[str, str] = {"sessions": _SESSIONS}


@cache
def parse_view(name: str) -> Select:
    return parse_select(VIEWS[name])

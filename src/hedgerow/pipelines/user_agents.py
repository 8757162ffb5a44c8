"""What a user agent says of a browser, its system and its device, in the words of posthog-js."""

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, NamedTuple

import ua_parser.re2
from ua_parser import Parser
from ua_parser.loaders import load_lazy_builtins

# Where SDKs put it, the browser's own first.
NAMES = ("$raw_user_agent", "$user_agent", "$useragent")
# Longer ones are made up.
MAX_LENGTH = 1000
KEPT = 10_000

_BROWSERS = {
    "Chrome Mobile": "Chrome",
    "Chrome Mobile WebView": "Chrome",
    "Chrome Mobile iOS": "Chrome iOS",
    "Edge": "Microsoft Edge",
    "Edge Mobile": "Microsoft Edge",
    "Firefox Mobile": "Firefox",
    "IE": "Internet Explorer",
    "IE Mobile": "Internet Explorer Mobile",
    "Opera Mobile": "Opera",
    "Safari Mobile": "Mobile Safari",
}
_SYSTEMS = {"Ubuntu": "Linux", "Fedora": "Linux", "Debian": "Linux", "Red Hat": "Linux"}
_DESKTOPS = frozenset({"Windows", "Mac OS X", "Linux", "Chrome OS", "FreeBSD", "OpenBSD", "NetBSD"})
_SPIDER = "Spider"
# Programs that are no browser, and browsers that nobody sits in front of.
_BOT_WORDS = (
    "bot",
    "crawl",
    "spider",
    "slurp",
    "headless",
    "phantomjs",
    "lighthouse",
    "pingdom",
    "uptime",
    "monitor",
    "curl/",
    "wget/",
    "python-requests",
    "python-urllib",
    "go-http-client",
    "scrapy",
    "facebookexternalhit",
)


class Known(NamedTuple):
    """Empty where nothing is known."""

    browser: str
    system: str
    device: str
    is_bot: bool


def user_agent_of(properties: Mapping[str, Any]) -> str:
    for name in NAMES:
        value = properties.get(name)
        if isinstance(value, str) and value:
            return value[:MAX_LENGTH]
    return ""


@lru_cache(maxsize=KEPT)
def known(user_agent: str) -> Known:
    """Most are seen again and again, and looking closely takes a while."""
    parsed = _parser().parse(user_agent)
    browser = parsed.user_agent.family if parsed.user_agent else ""
    system = parsed.os.family if parsed.os else ""
    system = _SYSTEMS.get(system, system)
    family = parsed.device.family if parsed.device else ""
    words = user_agent.lower()
    return Known(
        browser=_BROWSERS.get(browser, browser),
        system=system,
        device="" if family == _SPIDER else _device(system, family, user_agent),
        is_bot=family == _SPIDER or any(word in words for word in _BOT_WORDS),
    )


@cache
def _parser() -> Parser:
    """Made when it is first needed: its patterns take a tenth of a second to compile."""
    return Parser(ua_parser.re2.Resolver(load_lazy_builtins()))


def _device(system: str, family: str, user_agent: str) -> str:
    if system in _DESKTOPS:
        return "Desktop"
    if system == "iOS":
        return "Tablet" if family.startswith("iPad") else "Mobile"
    if system == "Android":
        return "Mobile" if "Mobile" in user_agent else "Tablet"
    return ""

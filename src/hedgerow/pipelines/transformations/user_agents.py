"""Parses user agents into browser, operating system and device type, named as in posthog-js."""

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, NamedTuple

import ua_parser.re2
from ua_parser import Parser
from ua_parser.loaders import load_lazy_builtins

# The properties in which SDKs send it, most specific first.
USER_AGENT_PROPERTIES = ("$raw_user_agent", "$user_agent", "$useragent")
# No real user agent is longer.
MAX_LENGTH = 1000
CACHE_SIZE = 10_000

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
# HTTP libraries, crawlers and automated browsers.
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


class UserAgent(NamedTuple):
    """A parsed user agent. Fields that cannot be recognized are empty."""

    browser: str
    system: str
    device: str
    is_bot: bool


def find_user_agent(properties: Mapping[str, Any]) -> str:
    for name in USER_AGENT_PROPERTIES:
        value = properties.get(name)
        if isinstance(value, str) and value:
            return value[:MAX_LENGTH]
    return ""


@lru_cache(maxsize=CACHE_SIZE)
def parse_user_agent(user_agent: str) -> UserAgent:
    """Parse a user agent. Cached, because parsing is slow and most user agents repeat."""
    parsed = _parser().parse(user_agent)
    browser = parsed.user_agent.family if parsed.user_agent else ""
    system = parsed.os.family if parsed.os else ""
    system = _SYSTEMS.get(system, system)
    family = parsed.device.family if parsed.device else ""
    words = user_agent.lower()
    return UserAgent(
        browser=_BROWSERS.get(browser, browser),
        system=system,
        device="" if family == _SPIDER else _device_type(system, family, user_agent),
        is_bot=family == _SPIDER or any(word in words for word in _BOT_WORDS),
    )


@cache
def load_user_agents() -> None:
    """Compile all patterns, which takes longer than the transformations of an event may take."""
    parse_user_agent("-")


@cache
def _parser() -> Parser:
    """Build the parser on first use: its patterns take a tenth of a second to compile."""
    return Parser(ua_parser.re2.Resolver(load_lazy_builtins()))


def _device_type(system: str, family: str, user_agent: str) -> str:
    if system in _DESKTOPS:
        return "Desktop"
    if system == "iOS":
        return "Tablet" if family.startswith("iPad") else "Mobile"
    if system == "Android":
        return "Mobile" if "Mobile" in user_agent else "Tablet"
    return ""

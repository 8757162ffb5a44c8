"""The people of the demo: studios that use Fernleaf, an invoicing app that does not exist.

Everyone is made from a seed, so that two runs make the same people.
"""

from dataclasses import dataclass
from random import Random
from uuid import UUID

COUNTRIES = {"DE": 26, "GB": 20, "FR": 16, "NL": 12, "US": 14, "NO": 7, "PT": 5}
FIRST_NAMES = (
    *("Ada", "Amira", "Anton", "Bea", "Carlos", "Chidi", "Clara", "Dara", "Elif", "Emil", "Finn"),
    *("Greta", "Hana", "Ines", "Ivo", "Jonas", "Kaya", "Lars", "Leila", "Lin", "Mara", "Mateo"),
    *("Mila", "Nils", "Noor", "Olga", "Omar", "Pia", "Rafael", "Rosa", "Sami", "Tess", "Yara"),
)
LAST_NAMES = (
    *("Abel", "Adeyemi", "Almeida", "Bakker", "Berg", "Costa", "Dubois", "Eriksen", "Fischer"),
    *("Garcia", "Haddad", "Hughes", "Ito", "Janssen", "Keller", "Kowalski", "Lang", "Lopes"),
    *("Marsh", "Moreau", "Nguyen", "Okafor", "Olsen", "Patel", "Reid", "Rossi", "Silva", "Singh"),
    *("Sommer", "Tanaka", "Visser", "Wolf", "Young"),
)
STUDIO_NAMES = (
    *(
        "Amber",
        "Birch",
        "Cobalt",
        "Drift",
        "Ember",
        "Flint",
        "Grove",
        "Harbor",
        "Indigo",
        "Juniper",
    ),
    *("Kestrel", "Lumen", "Meadow", "North", "Ochre", "Pebble", "Quarry", "Rook", "Saffron"),
    *("Tide", "Umber", "Velvet", "Willow", "Yarrow"),
)
STUDIO_KINDS = ("Studio", "Design", "Films", "Architects", "Press")
INDUSTRIES = {"Studio": "design", "Design": "design", "Films": "video", "Press": "print"}
ROLES = {"owner": 3, "designer": 5, "accountant": 2}
SOURCES = {"google.com": 45, "$direct": 25, "studiomag.example": 15, "linkedin.com": 15}
BROWSERS = {"Chrome": 56, "Safari": 26, "Firefox": 12, "Edge": 6}
SYSTEMS = {
    "Chrome": ("Windows", "Mac OS X", "Android"),
    "Safari": ("Mac OS X", "iOS"),
    "Firefox": ("Linux", "Windows"),
    "Edge": ("Windows",),
}
PHONES = ("Android", "iOS")
# Share of people who had an account before the first day of the demo.
KNOWN_SHARE = 0.24
PERSONS_PER_COMPANY = 22
KNOWN_MAX_DAYS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Company:
    key: str
    name: str
    industry: str
    country: str
    size: int
    plan: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoPerson:
    """`visitor_id` is the id before login, `user_id` the one after it. `first_day` is how many days
    ago the first visit was. `is_known` people had an account before that."""

    visitor_id: str
    user_id: str
    name: str
    email: str
    role: str
    company: Company
    browser: str
    system: str
    source: str
    first_day: float
    is_known: bool

    @property
    def device(self) -> str:
        return "Mobile" if self.system in PHONES else "Desktop"


def pick(random: Random, weights: dict[str, int]) -> str:
    return random.choices(list(weights), list(weights.values()))[0]


def make_uuid(random: Random) -> str:
    return str(UUID(int=random.getrandbits(128), version=4))


def make_companies(random: Random, persons: int) -> list[Company]:
    names = [f"{name} {kind}" for name in STUDIO_NAMES for kind in STUDIO_KINDS]
    count = min(max(persons // PERSONS_PER_COMPANY, 3), len(names))
    return [_make_company(random, name) for name in random.sample(names, count)]


def _make_company(random: Random, name: str) -> Company:
    size = min(2 + int(random.expovariate(1 / 14)), 120)
    large = {"team": 6, "pro": 3, "free": 1}
    small = {"free": 6, "pro": 3, "team": 1}
    return Company(
        key=name.lower().replace(" ", "-"),
        name=name,
        industry=INDUSTRIES.get(name.split()[1], "architecture"),
        country=pick(random, COUNTRIES),
        size=size,
        plan=pick(random, large if size > 15 else small),
    )


def make_persons(
    random: Random, companies: list[Company], count: int, days: int
) -> list[DemoPerson]:
    sizes = [company.size for company in companies]
    return [
        _make_person(random, number, random.choices(companies, sizes)[0], days)
        for number in range(count)
    ]


def _make_person(random: Random, number: int, company: Company, days: int) -> DemoPerson:
    is_known = random.random() < KNOWN_SHARE
    first, last = random.choice(FIRST_NAMES), random.choice(LAST_NAMES)
    browser = pick(random, BROWSERS)
    # More people come each week.
    arrived = days * (1 - random.random() ** 0.85)
    return DemoPerson(
        visitor_id=make_uuid(random),
        user_id=f"user-{number + 1001}",
        name=f"{first} {last}",
        email=f"{first}.{last}{number}@{company.key}.example".lower(),
        role=pick(random, ROLES),
        company=company,
        browser=browser,
        system=random.choice(SYSTEMS[browser]),
        source=pick(random, SOURCES),
        first_day=days + random.random() * KNOWN_MAX_DAYS if is_known else arrived,
        is_known=is_known,
    )

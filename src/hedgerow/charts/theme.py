"""Colors and sizes of the pictures: light, because messages show them on white."""

MARGIN = 28.0
BACKGROUND = "#ffffff"
TEXT = "#1d1f27"
MUTED = "#5f6470"
FAINT = "#8b909c"
GRID = "#e6e8ee"
TRACK = "#f1f3f8"
POSITIVE = "#18794e"
NEGATIVE = "#cd2b31"
# Distinct also for people who do not see red and green, in this order.
PALETTE = (
    *("#2456e6", "#e5750b", "#12866c", "#b1339c", "#6a4cd3", "#c9262f"),
    *("#0f8ab8", "#8a6a00", "#4f7d12", "#7a4a2b", "#5f6470", "#d6569a"),
)
ACCENT = PALETTE[0]
_ACCENT_PARTS = tuple(int(ACCENT[at : at + 2], 16) for at in (1, 3, 5))


def choose_color(number: int) -> str:
    return PALETTE[number % len(PALETTE)]


def mix_accent(share: float) -> str:
    """Return white at 0 and the accent at 1."""
    share = min(max(share, 0.0), 1.0)
    return "#" + "".join(f"{round(255 - (255 - part) * share):02x}" for part in _ACCENT_PARTS)

"""How tests on generated values run here: a bounded number, whatever each takes, nothing kept."""

from hypothesis import settings

bounded = settings(database=None, deadline=None, max_examples=100)

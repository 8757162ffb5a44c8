"""How tests on generated values run here: a bounded number, whatever each takes, nothing kept."""

from hypothesis import settings
from hypothesis import strategies as st

bounded = settings(database=None, deadline=None, max_examples=100)

# Also what no JSON document holds but a value may: lone surrogates, NaN and infinity.
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters()), inner, max_size=4)
    ),
    max_leaves=20,
)

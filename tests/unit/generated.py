"""How tests on generated values run here: a bounded number, whatever each takes, nothing kept. Few
while somebody works, more when everything is tested: HEDGEROW_TEST_EXAMPLES says how many.
"""

import os

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("HEDGEROW_TEST_EXAMPLES", "10"))

# What is slow is not wrong: other things run on the machine as well.
PATIENT = settings(database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow])
bounded = settings(PATIENT, max_examples=EXAMPLES)
# For what has many ways to go wrong.
thorough = settings(bounded, max_examples=2 * EXAMPLES)

# Also what no JSON document holds but a value may: lone surrogates, NaN and infinity.
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters()), inner, max_size=4)
    ),
    max_leaves=20,
)

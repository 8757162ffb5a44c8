"""Hypothesis settings: a bounded number of examples (HEDGEROW_TEST_EXAMPLES), no deadline and no
database.
"""

import os

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("HEDGEROW_TEST_EXAMPLES", "10"))

# No deadlines: the machine may be busy.
PATIENT = settings(database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow])
bounded = settings(PATIENT, max_examples=EXAMPLES)
# For parsers and the like, with many ways to fail.
thorough = settings(bounded, max_examples=2 * EXAMPLES)

# Includes values that no JSON document can hold: lone surrogates, NaN and infinity.
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters()), inner, max_size=4)
    ),
    max_leaves=20,
)

"""The edge process: evaluates flags without a database, with the definitions of an origin."""

"""Moving in from elsewhere: what definitions of other services become here. Pure."""

"""Approvals: which changes of flags need other people, and the requests for them."""

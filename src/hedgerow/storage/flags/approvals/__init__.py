"""Approval policies, change requests, and the gate in front of writes of flags."""

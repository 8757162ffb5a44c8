"""Why somebody gets what from a flag: every question with its answer, as values. Pure.

The outcome is the engine's own. What is told beside it asks the same compiled questions again.
"""

"""A run from its start to its end.

See docs/decisions/runs.md.
"""

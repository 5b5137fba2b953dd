"""Measurements, one command each: `python -m benchmarks.NAME`. No other package imports from this
one.

See docs/decisions/tests.md.
"""

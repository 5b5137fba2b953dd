"""Measurements, one command each: `python -m benchmarks.NAME`. Nothing in the packages imports from
here.

See docs/decisions/tests.md.
"""

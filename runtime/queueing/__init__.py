"""Predictions of how fast a cluster will be, from the times of its parts: stations, links and
service times. This package knows nothing of nets or messages.

See docs/decisions/tuning.md.
"""

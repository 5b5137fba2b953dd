"""Measurements of the queueing model and the tuner.

The command is `tuning`; most other files hold one part of it.
"""

"""`preset = "auto"`: the fastest preset that computes what `single` does.

preset_candidates   which presets these are, for this net, solver and cluster
speeds       how long an iteration of each will take, from layers that are measured here
stopwatch    how long it takes in a trial, and when enough is known
preset       what is tried, what is chosen and why

See docs/decisions/tuning.md.
"""

"""`preset = "auto"`: the choice of the fastest preset that computes the same as `single`.

preset_candidates  The presets that could stand in place of "auto"
speeds             Predictions of how long an iteration of each candidate takes, before any of them
                   runs
stopwatch          The time of an iteration in a trial, from its progress reports, and the decision
                   when enough is known
preset             The choice of a preset where `preset = "auto"`

See docs/decisions/tuning.md.
"""

"""`preset = "auto"`: the fastest preset that computes what `single` does.

preset_candidates  Which presets could stand in place of "auto"
speeds             How long an iteration of each candidate will take, before any runs
stopwatch          How long an iteration takes in a trial, from its progress reports
preset             `preset = "auto"`

See docs/decisions/tuning.md.
"""

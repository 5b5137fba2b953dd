"""`preset = "auto"`: the choice of the fastest preset that computes the same as `single`, at least
with one group.

preset_candidates  The presets that could stand in place of "auto"
speeds             Predictions of how long an iteration of each candidate takes, before any of them
                   runs
stopwatch          The time of an iteration in a trial, from its progress reports, and the decision
                   when enough is known
preset             The choice of a preset where `preset = "auto"`
counted            The number of groups with which a candidate is compared with others
iteration_worth    The worth of an iteration with several groups, compared with an iteration of one
                   group
trial              Trials of single presets
island_candidate   Islands in place of `preset = "auto"`, for machines with slow links or unequal
                   speeds

See docs/decisions/tuning.md.
"""

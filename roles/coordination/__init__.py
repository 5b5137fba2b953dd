"""The coordination of a run: what each group does next, tests, checkpoints, changes, the end.

coordinator       The coordinator, the lead of every training topology
schedule          The order in which a run trains, tests, saves, changes its groups and ends
pass_ledger       Reports about passes
grouping          The workers of each group, and the next pass of each worker
ticket_batching   The number of iterations that a group that is alone is given at once
regroup           Changes of groups, workers, rates and batch while a run goes on
run_settings      The present groups, rates and batch of a run, and their changes, which are sent to
                  all actors that need them
probing           A run that is held
handing_over      The handing over of a run
state_holders     The actors that hold all of a run, asked for when another actor has died
stragglers        The detection of stragglers
timetable         The timetable of a job's run
testing           The results of a run's tests
gauges            The gauges of a coordinator's page of metrics
divergence        The detection of training that diverges, from the losses of its iterations
advice            The advice to a user whose loss is not a finite number
plateau_steps     The base_lr of a run whose rate falls after tests without improvement
attendance        The workers that come and go in a run
coming_and_going  Workers that come and go while a run goes on
sample_ledger     The ledger of samples

See docs/decisions/training.md.
"""

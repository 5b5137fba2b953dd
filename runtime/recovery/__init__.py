"""The runs of one `up` command: the first run, and the runs that follow a death or a change of the
number of workers.

up_runs     The command `up`: from a checked cluster.toml to an exit code
restarting  A run that survives deaths and can be scaled
restarts    When a run is restarted after it has ended
healed      A run that was resumed from the memory of the run before
next_run    How the next run is planned from the run before it

See docs/decisions/runs.md.
"""

"""The runs of one `up` command: the first run, and the runs that follow a death or a change of the
number of workers.

up_runs     `up`: from a checked cluster.toml to an exit code
restarting  A run that survives, and that can be scaled
restarts    When a run that ended begins anew
healed      A run that began with what another had in memory
next_run    What the run is that follows another

See docs/decisions/runs.md.
"""

"""A run as a command, and the runs that follow it: after a death, or when somebody wants another
number of workers.

up_runs     `up`: from a checked cluster.toml to an exit code
restarting  A run that survives, and that can be scaled
restarts    When a run that ended begins anew
healed      A run that began with what another had in memory
next_run    What the run is that follows another

See docs/decisions/runs.md.
"""

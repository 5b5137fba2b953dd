"""A run as a command, and the runs that follow it: after a death, or when somebody wants another
number of workers.

up_runs          from a checked cluster.toml to an exit code
restarting  runs that follow one another, to signals and clients one
restarts    whether one that died begins anew; a plain decision
healed      of a run that goes on from memory: how long it took, until when that is kept
next_run   what the next one is: on other machines, with other workers, from the newest checkpoint

See docs/decisions/runs.md.
"""

"""Access to a live run from outside its processes.

attach             A client of a run
remote_client      A client of a run on another machine
observed_run       A run as observed from outside, on this machine or, by `--connect`, on another
                   one
ending             Ending a run from outside
finding            The search for runs: which of them live, and which one a command means
run_status         The status of a run, from its journal and, while it lives, from its supervisor
journal_following  Following a run of this machine by its files, and learning from the run itself
                   that it is over
run_listing        The list of the runs of a folder, each with its summary

See docs/decisions/watching.md.
"""

"""A live run, seen from outside of its processes.

attach             Taking part in a run from outside
remote_client      Taking part in a run of another machine
observed_run       A run as who is outside sees it, on this machine or, by `--connect`, on another
ending             Ending a run from outside
finding            Which runs live, and which one is meant
run_status         What is known of a run
journal_following  Following a run of this machine by its files, and hearing from it that it is over

See docs/decisions/watching.md.
"""

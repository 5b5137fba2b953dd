"""The files that runs leave: which runs there are, which one is the newest, which still live.

files      one way to read a file of a run directory, and to tell what is wrong with it
run_identity   run.json: the id of a run, its name, its begin, the run that it continues
runs       the runs of a folder, in the order of their begins: the one place that says which is the newest
journal_reading    the events of a journal
lock_file  the file of a lock: what it says, and whether it is held
up_lock    the lock that `up` holds from its first run to its last
wishes     what asks an `up` to end through its folder
sweeping   what killed processes left of their locks
presence   what that lock tells others: does `up` live, and on which host

See docs/decisions/runs.md.
"""

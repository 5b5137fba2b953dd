"""The files that runs leave: which runs there are, which one is the newest, which still live.

run_files        The files of a run directory, read in one way
run_identity     The identity of a run: run.json in its run directory
runs             The runs of a folder, in the order in which they began
journal_reading  Reading what a run has journalled
lock_file        The file of a lock of `up`, `.up-ID.lock` next to the run directories
up_lock          The lock that `up` holds from its first run to its last, next to the run
                 directories
wishes           Wishes that an `up` ends
sweeping         What killed processes left of their locks: which files these are, and their end
presence         What a lock tells others: does the `up` of a run live, and on which host?

See docs/decisions/runs.md.
"""

"""The files that runs leave: which runs exist, which one is the newest, and which are still live.

run_files        The files of a run directory, all read in the same way
run_identity     The identity of a run: run.json in its run directory
runs             The runs of a folder, in the order in which they began
journal_reading  Reading the journal of a run
lock_file        The file of a lock of `up`, `.up-ID.lock` next to the run directories
up_lock          The lock that `up` holds from its first run to its last, next to the run
                 directories
wishes           Wishes that an `up` ends: a file `.up-ID.end` next to its lock
sweeping         Finding and removing the lock files that killed processes have left
presence         The state of an `up` as its lock shows it
target_files     The file in which a run lists its metrics pages for Prometheus, in the form of
                 `file_sd`

See docs/decisions/runs.md.
"""

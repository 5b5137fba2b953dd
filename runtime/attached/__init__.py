"""A live run, seen from outside of its processes.

attach  remote_client         taking part in it; from another machine
observed_run                the same to whoever asks, wherever the run is
ending              ending a run, over its socket or through the lock of its `up`
finding  run_status   which runs live, and which is meant; what is known of one
journal_following           hearing how one that is followed by its files ends

See docs/decisions/watching.md.
"""

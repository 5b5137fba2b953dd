"""A live run, seen from outside of its processes.

attach  far         taking part in it; from another machine
seen                the same to whoever asks, wherever the run is
ending              ending a run, over its socket or through the lock of its `up`
finding  standing   which runs live, and which is meant; what is known of one
following           hearing how one that is followed by its files ends
"""

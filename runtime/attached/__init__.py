"""A live run, seen from outside of its processes.

attach  far         taking part in it; from another machine
seen                the same to whoever asks, wherever the run is
finding  standing   which runs live, and which is meant; what is known of one
following           hearing how one that is followed by its files ends
"""

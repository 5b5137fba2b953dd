"""The declarations of training roles: traffic, memory, work, recovery, devices, tuning.

role    The options of a training role, which describe it before it runs
shapes  The nets, layers, groups and rows of a topology, from the options of its actors alone
steps   The steps of an actor in one training iteration of a group, from which times are predicted
reads   The files and data that an actor with a job reads
sizes   Bytes that training roles send and hold, for their declarations (`role`)
loads   The contents of a piece of array work

See docs/decisions/training.md.
"""

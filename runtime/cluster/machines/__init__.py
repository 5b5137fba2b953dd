"""Machines elsewhere: what `up` and the agent on each of them say to one another, and by which road.

words               the messages, in the order in which they come
invitation  line    the keys that an agent is given; the encrypted link, both ends
facts               what a machine says of itself, and what of it does not fit
mirror  copies      files of a run there, as they grow; their copies here
"""

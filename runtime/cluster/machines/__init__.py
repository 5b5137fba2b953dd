"""Machines elsewhere: what `up` and the agent on each of them say to one another, and by which
road.

agent_messages               the messages, in the order in which they come
invitation  agent_link    the keys that an agent is given; the encrypted link, both ends
machine_facts               what a machine says of itself, and what of it does not fit
file_sync  copies      files of a run there, as they grow; their copies here
"""

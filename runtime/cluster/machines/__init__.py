"""Machines elsewhere: what `up` and the agent on each of them say to one another, and by which
road.

agent_messages  What `up` and the agent of a machine say to one another
invitation      The line that lets an agent in: keys that `up` makes for one machine and one run
agent_link      The link between `up` and the agents of a run
machine_facts   What a machine says of itself when its agent joins, and what of it does not fit the
                run
file_sync       Which bytes of which files of a folder their copies elsewhere have not got yet
copies          Copies of another machine's files, made of the pieces in which they come
"""

"""Other machines: the link between `up` and the agent on each of them, and its messages.

agent_messages  The messages between `up` and the agent of a machine
invitation      The line that admits an agent: keys that `up` makes for one machine and one run
agent_link      The link between `up` and the agents of a run
machine_facts   The facts that a machine's agent sends when it joins, and the check that the machine
                fits the run
file_sync       Finding the bytes of the files in a folder that their copies elsewhere do not have
                yet
copies          Copies of another machine's files, put together from the pieces that its agent sends
"""

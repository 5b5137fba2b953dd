"""A run from its start to its end.

run          A run as an object: start it, hear its events, talk to its actors, end it
execution    Where the actors of a run live
process_run  A run whose actors live in processes
loop_run     A run whose actors all live on this event loop
virtual_run  A run on the virtual clock
pages        The pages of `up`
observation  What a program makes of its run while it goes on
continuing   What lets another run follow one
healing      After a death
making       What a configuration asks for, before a run is made of it
signals      What signals do to a run
outside      The lock of `up`, and what others ask through it
choosing     Before a run
scripting    Runs from Python
checking     From cluster.toml to a placed topology: reads and plans, starts nothing

See docs/decisions/runs.md.
"""

"""A run from its start to its end.

run                                   the object: start, events, tell and ask, end
execution                                 where its actors live, whatever that is:
process_run  loop_run  virtual_run    processes, this event loop, virtual time
pages                                 where `up` serves its pages, and by which names
observation                           what a program makes of it while it goes on
continuing                            what lets another follow it
healing                               what is left of it in memory after a death
making                                what the configuration asks for: house, run directory, time
signals  outside                      what signals do to it, and wishes of others through the lock of `up`
choosing                              trials before it, where its program leaves something open
scripting  checking                   where a run begins: a script, a file

See docs/decisions/runs.md.
"""

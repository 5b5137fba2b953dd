"""A run from its start to its end.

run                                   the object: start, events, tell and ask, end
house                                 where its actors live, whatever that is:
process_run  loop_run  virtual_run    processes, this event loop, virtual time
observation                           what a program makes of it while it goes on
up  signals                           a run as a command
choosing                              trials before it, where its program leaves something open
restarting  restarts                  runs that follow it when a process died; when one does
scripting  checking                   where a run begins: a script, a file
attach                                taking part from outside
finding  standing                     which runs live, and which is meant; what is known of one
"""

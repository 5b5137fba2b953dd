"""Array work off the event loop.

compute        the compute thread, or work inline
emulated_device       devices whose work only takes its time
service_times  how long work takes: recorded, or drawn from a table
work_sums      how long work took, summed up while a run goes on
threads        how many threads the libraries of a process use

See docs/decisions/memory.md.
"""

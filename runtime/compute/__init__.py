"""Array work off the event loop.

compute          Array work, off the event loop
emulated_device  Emulated devices: an actor's array work takes its time on the event loop's clock,
                 and next to nothing else
service_times    How long array work takes
work_sums        How long the work of actors took, summed up by actor and label
threads          How many threads the libraries of a process compute with

See docs/decisions/memory.md.
"""

"""Array work off the event loop, and how long it takes.

compute          Array work off the event loop
emulated_device  Emulated devices: an actor's array work takes time on the event loop's clock, but
                 almost no computing
service_times    Service times, the durations of array work
work_sums        Sums of how long the work of actors took, by actor and label
threads          The number of threads that a process's libraries compute with

See docs/decisions/memory.md.
"""

"""Memory that processes of one host share, and memory that a process keeps.

arena         Shared memory of the processes of one host
blocks        The blocks of memory that processes share, and the processes that hold each of them
device_arena  Memory on a device that processes of one host share
mapping       A file mapped into memory far away from this process's code
freed         Reuse of freed memory
gaps          The free gaps of a range of addresses: first fit, and adjacent gaps are joined
held_arrays   Arrays that span memory of a mapping and report when their last view is gone

See docs/decisions/memory.md.
"""

"""Memory: what processes of one host share, what a process keeps.

arena        Shared memory of the processes of one host
mapping      A file mapped into memory far away from this process's code
freed        Memory that came free after a message is kept for the next one
gaps         The free gaps of a range of addresses
held_arrays  An array that spans memory of a mapping and says when its last view is gone

See docs/decisions/memory.md.
"""

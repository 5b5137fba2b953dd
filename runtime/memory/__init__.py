"""Memory: what processes of one host share, what a process keeps.

arena    Shared memory between the processes of one host
mapping  A file mapped into memory far away from this process's code
freed    Memory that came free after a message is kept for the next one
"""

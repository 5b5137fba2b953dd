"""Memory: what processes of one host share, what a process keeps.

arena    arrays written once by their producer, lent to peers and read in place by them
gaps     which bytes of an arena are free
held     an array that says when its last view is gone
mapping  a file mapped far from this process's code
freed    memory of messages, kept for the next ones

See docs/decisions/memory.md.
"""

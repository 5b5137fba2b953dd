"""Memory: what processes of one host share, what a process keeps.

arena    arrays written once by their producer, read in place by others
mapping  a file mapped far from this process's code
freed    memory of messages, kept for the next ones
"""

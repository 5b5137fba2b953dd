"""What is known of a run.

rundir   on disk
events   as a stream
console  on a terminal
"""

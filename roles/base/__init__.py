"""What every role of training says of itself before it runs.

role    `RoleOptions`: what a role says of itself, a class for each concern
shapes  what a topology's actors work on
steps   what an actor does in an iteration, and what it waits for
reads   what an actor with a job reads, to be compared over machines
sizes   sums of bytes that several roles need
loads   what is in a piece of array work
"""

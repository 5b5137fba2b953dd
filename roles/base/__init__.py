"""What every role of training says of itself before it runs.

role    What a role of training says of itself, in its own file, before it runs
shapes  What a topology's actors work on, from their options alone
steps   What an actor does in one training iteration of a group, as steps that wait for one another
reads   What an actor that builds from the job reads, in words that are the same wherever the same
        is read
sizes   Bytes that roles of training send and hold, for what they say of themselves (`role`)
loads   What is in a piece of array work

See docs/decisions/training.md.
"""

"""Operators elsewhere: how `--connect` reaches a run, see docs/operate.md. `attached/far.py` is the other end.

desk      the end of `up`: a road for clients that dial, and the files that they may read
card      who may: keys and an address as a file that the operator copies
words     what is said about files; all else is said as any client says it
"""

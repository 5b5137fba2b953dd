"""Operators elsewhere: how `--connect` reaches a run, see docs/operate.md.
`attached/remote_client.py` is the other end.

operator_server    Where operators elsewhere reach a run
operator_key       What lets an operator in, as a file
operator_messages  What an operator elsewhere asks about the files of a run; which those are

See docs/decisions/security.md.
"""

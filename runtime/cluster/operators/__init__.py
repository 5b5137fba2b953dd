"""Operators elsewhere: how `--connect` reaches a run, see docs/operate.md.
`attached/remote_client.py` is the other end.

operator_server      the end of `up`: a road for clients that dial, and the files that they may read
operator_key      who may: keys and an address as a file that the operator copies
operator_messages     what is said about files; all else is said as any client says it

See docs/decisions/security.md.
"""

"""Operators on other machines: how `--connect` reaches a run (docs/operate.md).
`attached/remote_client.py` is the client's end.

operator_server    The server for operators on other machines
operator_key       The file that admits an operator
operator_messages  The messages by which operators on other machines read the files of a run, and
                   the files that they may read

See docs/decisions/security.md.
"""

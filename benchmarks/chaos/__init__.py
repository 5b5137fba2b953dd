"""Runs to which harm is done.

The command is `chaos`; each other file is a sort of harm or what they share.
"""

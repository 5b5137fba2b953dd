"""Runs that suffer faults on purpose.

The command is `chaos`. Each other file holds one sort of harm, or code that they share.
"""

"""Measurements and checks of everything on a GPU.

The command is `gpu`. Each other file holds one part, or code that parts share.
"""

"""Everything a GPU must show.

The command is `gpu`; each other file is a part or what they share.
"""

"""Array work off the event loop, and how long it takes.

See docs/decisions/memory.md.
"""

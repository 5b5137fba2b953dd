"""The headlines of the four papers, compared with the figures of this project: docs/papers.md.

The command is `papers`. A module for each paper holds its headlines as data.
"""

"""Lists that are generated from the code, and tools that read source files for the checks of the
house.

`python -m tests.house` prints the files whose lists are not up to date and exits with 1. `python -m
tests.house --write` writes them. The text of each entry has one source in the code:

folder maps             the first sentence of each module's docstring
`__all__`               the imports of the package
docs/configuration.md   the sections of cluster.toml: the string below each key
docs/commands.md        the functions of the commands: their docstrings and parameters
docs/metrics.md         the calls that make the metrics: kind, labels, help
docs/layers.md          the classes of the layers, the rules of the solvers
docs/messages.md        the classes of the messages
docs/conversations.md   the tables of the roles
docs/caffe.md           the fields of Caffe's files
docs/monitoring/boards  `docs/monitoring/boards.py`
"""

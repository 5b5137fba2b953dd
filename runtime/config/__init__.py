"""cluster.toml: read, checked, every mistake at its line.

file                     the whole way: parse, validate, judge by rules, the program's own sections
validation  rules        each section by itself; what no single section shows
unused                   keys that say nothing where they stand
sections  value_types          what it may say about the runtime; kinds of values that several sections have
engines                  the tables of [launcher] that belong to one kind
machines  hostfile          [[machine]], and the machines that an entry stands for; lists and files of hosts
slurm_environment                    what [[machine]] means with launcher.kind = "slurm"
toml_source                   the text and the --set overrides, with the place of each value
problems                 pydantic's errors in our words
toml_lines  toml_write   on which line a key stands; plain data back to TOML
"""

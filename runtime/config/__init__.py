"""Reading and checking cluster.toml. Every mistake is reported with its line.

file               Loading cluster.toml: from its text to a configuration that the runtime and the
                   program accept
unused             Keys of the runtime's sections that have no effect where they stand
sections           The runtime's sections of cluster.toml: every section, key, default and limit
value_types        The types of values that several sections of cluster.toml have, and the base
                   class of all sections
engines            [launcher.ray], [launcher.kubernetes]: the keys that only one kind of launcher
                   has
machines           [[machine]]: its keys, and the machines that each entry stands for
hostfile           Short notations for many hosts: Slurm's lists and MPI's files
slurm_environment  Machines that Slurm gives
toml_source        The text of cluster.toml and the --set overrides, as plain data that remembers
                   the place of each value
problems           Translating pydantic's errors: "found 'two' (string), expected an integer >= 1"
toml_lines         The line of each key in a TOML document, for error messages
toml_write         Writing plain data as TOML text that tomllib reads back equal
rules              Rules between sections, which no single section can check
validation         Validating each section of the runtime by itself, as a typed object
recorded           The config.toml of a run directory: the resolved configuration of the run
program_import     The import of the program that a cluster.toml names
"""

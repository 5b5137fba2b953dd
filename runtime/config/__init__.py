"""Reading and checking cluster.toml. Every mistake is reported with its line.

file               cluster.toml, from its text to a configuration that the runtime and the program
                   accept
unused             Keys of the runtime's sections that say something and change nothing where they
                   stand
sections           What cluster.toml may say about the runtime
value_types        The kinds of values that several sections of cluster.toml have, and what all
                   sections are
engines            [launcher.ray], [launcher.kubernetes]: what a kind of launcher wants to know
                   besides what all do
machines           [[machine]]: what it may say, and which machines each entry stands for
hostfile           Many hosts in a few words: Slurm's lists, MPI's files
slurm_environment  Machines that Slurm gives
toml_source        The text of cluster.toml and the --set overrides, as plain data that remembers
                   where each value came from
problems           pydantic's errors in our words: "found 'two' (string), expected an integer >= 1"
toml_lines         On which line each key of a TOML document stands, for error messages
toml_write         Plain data to TOML text that tomllib reads back equal
rules              Rules: what no single section shows
validation         Validate: each section of the runtime by itself, as a typed object
"""

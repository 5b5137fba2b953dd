"""The machine on which a process runs: its addresses, memory, files, versions and signals.

addresses      Which of its addresses a machine uses
private        The private folder of a run on a machine
owned          Files and folders of this user
private_files  Secrets as files, and the files of a run directory
boot           The boot of this machine's kernel
forks          Descriptors that end with this process: a forked child closes them at once
descriptors    How many files and sockets a process may have open
memory         The memory of this machine, or of the control group that holds this process
namespaces     Network namespaces of this machine
process_usage  What a process of this machine uses, as the system tells it
stacks         The Python stacks of a process: which signal asks for them, and who writes them
versions       Which versions of what a process runs
commit         The commit that this source came from, if that is known
loop           The event loop of every process here
parent         What a process asks of the system about its parent

See docs/decisions/processes.md.
"""

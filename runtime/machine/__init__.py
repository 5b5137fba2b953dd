"""The machine on which a process runs: its addresses, memory, files, versions and signals.

addresses      Choosing the address that a machine uses
private        The private folder of a run on a machine, for its sockets and keys
owned          Files and folders of this user, made and opened so that no other user can replace
               them
private_files  Files with secrets, and the files of a run directory
boot           The boot of this machine's kernel
forks          Descriptors that belong to this process only: a forked child closes them at once
descriptors    The number of files and sockets that a process may have open
memory         The memory of this machine, or of the control group that holds this process, and
               whether the kernel has killed a process for memory
namespaces     Network namespaces of this machine
process_usage  The processor time and memory of a process of this machine, as the system reports
               them
stacks         The Python stacks of a process
versions       The versions of the software that a process runs
commit         The commit that this source came from, if it is known
loop           The event loop that every process of a run uses
parent         A request to the system about the parent of this process
usable_cores   The cores of this machine that this process may use
lost_calls     Mistakes for which Python itself only prints a line

See docs/decisions/processes.md.
"""

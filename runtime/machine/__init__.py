"""What the machine is on which a process runs.

addresses    which of its addresses it uses
private      the private folder of a run on it
owned        files and folders of this user, which nobody else can replace
boot         the boot of its kernel
forks        what forked children do not keep
files        secrets, and the files of a run directory
descriptors  how many sockets and files a process may have
memory       how much there is; whether the kernel killed for it
namespaces   its network namespaces: a process enters one
process_usage        what a process of it uses
stacks       where its threads are in the code, when a signal asks
versions     what runs on it
commit       which commit of the source that is
loop         the event loop of a process here
parent       what a process asks of the system about its parent

See docs/decisions/processes.md.
"""

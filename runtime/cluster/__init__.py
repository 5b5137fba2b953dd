"""The life of the processes of a run: their start, their supervision and their end.

lifecycle      The life of a role process
supervision    Deciding which processes are alive, by three signs, since each sign alone can be
               wrong
standstill     Detecting that a run stands still although every process lives
membership     The roll of a run: which processes have greeted, and from where
sameness       Whether all machines run the same software on the same data
causes         Choosing the cause to report, out of several reports of one death
supervisor     The supervisor: starts every process of a run, leads them through their life, ends
               them all, and names the cause
agent          The agent: one actor in each process that answers the supervisor and sends reports to
               it
process        A role process, from its fork to its end
launcher       The interface between the supervisor and a launcher, which starts processes
launchers/     Launchers: they start role processes on machines and report how the processes ended
operators/     Operators on other machines: how `--connect` reaches a run (docs/operate.md)
machines/      Other machines: the link between `up` and the agent on each of them, and its messages
kubernetes/    The connection between a run and a Kubernetes cluster
nursery_start  Starting the nursery
run_tracing    Tracing a whole run
clients        The clients of a run
watcher        The interface of an observer of a run
warnings       The warnings that a process logs, sent to the user as events, since users seldom read
               logs
preparing      The preparation of a process before it can begin, such as the compilation of kernels
revival        The processes that are started again when they die, while their run goes on
growing        The growth of a run that lives in processes
spawning       Actors that start others while the run goes on, as seen from their process
rejoining      Machines that were lost while a run goes on without them

See docs/decisions/processes.md.
"""

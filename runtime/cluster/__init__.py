"""The life of the processes of a run: their start, their supervision and their end.

lifecycle      The life of a role process
supervising/   Supervising a run: its processes are started, watched, started again and ended
membership     The roll of a run: which processes have greeted, and from where
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
spawning       Actors that start others while the run goes on, as seen from their process

See docs/decisions/processes.md.
"""

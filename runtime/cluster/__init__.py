"""The life of the processes of a run.

lifecycle      The life of a role process
supervision    Which process is alive, by three signs, since each alone can lie
standstill     Progress as a liveness of its own: every process lives, and yet nothing advances
membership     The roll of a run: which processes have greeted and from where
sameness       Do all machines run the same thing on the same data?
causes         Of several reports of one death, which is told
supervisor     The supervisor: starts every process of a run, leads them through their life, ends
               them all, and names the cause
agent          The agent: one actor per process that answers the supervisor and carries reports to
               it
process        A role process, from its fork to its end
launcher       What the supervisor asks of whatever starts processes
launchers/     Launchers start role processes on machines and tell how they ended
operators/     Operators elsewhere: how `--connect` reaches a run, see docs/operate.md
machines/      Machines elsewhere: what `up` and the agent on each of them say to one another, and
               by which road
kubernetes/    What a run says to a Kubernetes cluster, and hears of it
nursery_start  Forks the process that role processes are forked from, `launchers/nursery.py`
run_tracing    Has every process of a run traced, reads their clocks, and has one file made of it
clients        Who is outside a run and takes part in it, as the supervisor sees it
watcher        What is told of a run while it goes on
warnings       The warnings that a process logs, told to the person as events
preparing      What a process prepares before it can begin, such as kernels that are compiled

See docs/decisions/processes.md.
"""

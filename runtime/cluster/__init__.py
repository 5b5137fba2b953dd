"""The life of the processes of a run.

lifecycle                 the messages between agent and supervisor, and the table of legal steps
supervision  standstill   who counts as dead; when nothing advances
membership  sameness            who has greeted, from where; do all machines run and read the same
causes  supervisor        which of several reports is told; starting and ending everything
agent  process            in each role process: who answers the supervisor; from its fork to its end
launcher  launchers       what starts processes; a kind of place a file
operators                 people elsewhere who look at the run and steer it
machines                  machines elsewhere: their link with `up`
kubernetes                what a run says to a Kubernetes cluster, and hears of it
nursery_start                     starts the process that role processes are forked from
run_tracing                   traces of all processes, as one file
clients  watcher          who is outside a run and takes part in it; who is told of it
warnings  preparing       what processes log as warnings, and of what they prepare, told as events

See docs/decisions/processes.md.
"""

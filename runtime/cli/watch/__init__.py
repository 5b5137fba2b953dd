"""Commands that watch a live run in detail; `events` and `logs` also show one that is over.

top           `top`: show each actor's work and waits, second by second, and the bottleneck
stack         `stack`: show what every actor waits for, and where its process is in the code
events        `events`: print the journal of a run, live or over
logs          `logs`: show the logs of a run's processes
trace         `trace`: record the work of a live run's actors over time, as a file that Perfetto
              opens
run_sampling  The states of all processes of a run, asked for again and again
rates         The shares and rates of each actor between two looks at a run
bottleneck    The actor that holds up the others, in one sentence
top_lines     The view of `top` as lines
quit_keys     The keys that end a live view: `q` on a terminal, or Ctrl-C
stack_files   The Python stacks of a process
tails         The logs of a run as lines with the names of their processes, ordered by the times at
              the beginning of the lines

See docs/decisions/watching.md.
"""

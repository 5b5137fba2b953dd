"""Looking at a live run from outside, beyond `ps` and `status`; its journal also when it is over.

top           `top`: who computes, who waits for whom, and what is the bottleneck
stack         `stack`: what every actor waits for, and where its process is in the code
events        `events`: the journal of a run, live or over
logs          `logs`: what the processes of a run have logged
trace         `trace`: what the actors of a live run do and when, as a file that Perfetto opens
run_sampling  Asks all processes of a run what they do, again and again
rates         What two looks at a run say of the time between them: a row for each actor
bottleneck    Who holds up the others, in one sentence
top_lines     What `top` shows, as lines
quit_keys     What ends something that is shown: `q` on a terminal, or Ctrl-C
stack_files   The Python stacks of a process
tails         The logs of a run as lines with the names of their processes, in the order of the
              times that they begin with

See docs/decisions/watching.md.
"""

"""Looking at a live run from outside, beyond `ps` and `status`; its journal also when it is over.

top               who computes, who waits for whom, what is the bottleneck; refreshed
stack             what every actor waits for, and the Python stacks of its process
events            what has happened in it, followed
logs              the logs of all processes, followed
trace             what actors did and when, as a file for Perfetto
run_sampling           asks all processes what they do
rates  bottleneck what two looks say of the time between them; who holds up the others
top_lines             what `top` shows, as lines
quit_keys              `q` on a terminal
stack_files            has a process write its stacks, and reads them
tails             the logs of a run as lines, in the order of their times

See docs/decisions/watching.md.
"""

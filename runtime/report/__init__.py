"""What is known of a run.

rundir  journal           on disk: what happened
log_table  usage     tensorboard  numbers as a table; what each process has done; as TensorBoard reads them
event_stream                    as a stream
console                   on a terminal: lines, and a table that stays
nonblocking_stream                   a stream that does not wait for its reader
run_phase                    in which state a run is: the one place that decides
run_state  screen  columns     what that log_table is made of; its lines; lines that fit a terminal
run_metrics               as metrics: its state, and how it ended

See docs/decisions/watching.md.
"""

"""What is known of a run.

rundir  journal           on disk: what happened
table  usage     tensorboard  numbers as a table; what each process has done; as TensorBoard reads them
events                    as a stream
console                   on a terminal: lines, and a table that stays
patient                   a stream that does not wait for its reader
course                    in which state a run is: the one place that decides
picture  screen  columns     what that table is made of; its lines; lines that fit a terminal
run_metrics               as metrics: its state, and how it ended
"""

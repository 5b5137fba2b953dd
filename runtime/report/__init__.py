"""What is known of a run.

rundir              The run directory
journal             The journal of a run, events.jsonl, and the files beside it
log_table           The numbers of a run as a table, log.csv beside the journal
usage               What every process of a run has done so far, usage.jsonl beside the journal
tensorboard         The numbers of progress reports and tests as TensorBoard reads them, for
                    `tensorboard --logdir runs`
event_stream        The events of a run as a stream
console             What a person sees of a run
nonblocking_stream  A stream that does not wait for its reader
run_phase           In which state a run is, by its events: the one place that decides
run_state           What is known of a run at a moment, gathered from its events and heartbeats
screen              The live table as lines
columns             Lines that fit a terminal
run_metrics         How a run stands, as metrics on the page of `up`

See docs/decisions/watching.md.
"""

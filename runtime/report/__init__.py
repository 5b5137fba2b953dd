"""What is known of a run.

rundir              The run directory
journal             The journal of a run, events.jsonl, and the files next to it
remaking            A run directory that is removed during its run, by a person or a cleaning
                    program, is made again
log_table           The numbers of a run as a table, log.csv next to the journal
usage               The totals of every process so far, usage.jsonl next to the journal
tensorboard         The numbers of progress reports and tests in TensorBoard's format, for
                    `tensorboard --logdir runs`
event_stream        The events of a run as a stream for any number of readers
console             The view of a run for people
nonblocking_stream  A stream that does not wait for its reader
run_phase           The state of a run, derived from its events in this one place
run_state           The state of a run at one moment, gathered from its events and heartbeats for
                    the live table
screen              The live table as lines that fit the terminal in number and width
columns             Lines that fit a terminal
run_metrics         The state of a run as metrics on the page of `up`
run_keys            The keys of cluster.toml that differ between runs, and short names of keys
run_summary         The summary of a run: its state, its scores and its configuration
score_curves        The scores and losses of a run over its iterations, read from its journal
trackers            Trackers of experiments of other projects, which get the numbers of a run
                    (`run.trackers`)
wandb_tracker       A run as Weights & Biases shows it

See docs/decisions/watching.md.
"""

"""What is known of a run.

rundir  journal  on disk
events           as a stream
console          on a terminal
run_metrics      as metrics: its state, and how it ended
"""

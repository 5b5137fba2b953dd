"""The work of a run's actors over time, as a file that Perfetto and chrome://tracing open.

tracer      A recorder of the work of one process's actors while the run is traced
tracks      The tracks on which spans are drawn
trace_part  The part of a trace that one process writes, in Chrome's Trace Event format
merging     The parts of all processes merged into one file, `trace.json`, which Perfetto opens

Each process writes its own part in whole lines. A killed process loses only the last quarter of a
second. The messages of the run carry no data for the trace.

See docs/decisions/watching.md.
"""

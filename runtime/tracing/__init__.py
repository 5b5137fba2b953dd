"""What the actors of a run did and when, as a file that Perfetto and chrome://tracing open.

tracer      Notes what the actors of one process do, while somebody traces
tracks      Where a span is drawn
trace_part  The part of one process
merging     The parts of all processes as one file, `trace.json`, which Perfetto opens

Each process writes its own part in whole lines. A process that is killed leaves all but the last
quarter of a second. No message of the run carries anything of it.

See docs/decisions/watching.md.
"""

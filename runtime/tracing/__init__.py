"""What the actors of a run did and when, as a file that Perfetto and chrome://tracing open.

tracer   notes what happens in one process, while somebody traces; its thread writes the process's part
tracks   where a span is drawn, so that no two of a track overlap
part     the lines of a part: Chrome's Trace Event format
merging  the parts of all processes, on one clock, as one file

Each process writes its own part as it goes, whole lines: who is killed leaves all but the last
quarter of a second. No message of the run carries anything of it.

See docs/decisions/watching.md.
"""

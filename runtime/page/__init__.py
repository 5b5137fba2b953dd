"""A report of runs as one HTML page, as a file or served while a run goes on.

series run_history lineage   the numbers of a run, what happened in it, the runs that it goes on from
time_shares link_traffic planned_traffic  where the time of an iteration goes; bytes on each link; what was planned
gantt                  ten iterations of a trace: computing and waiting
curves charts          which curves there are; how they are drawn
report_facts page             all that stands in the page; the page
live                   the page of a run that goes on, in `up`

See docs/decisions/watching.md.
"""

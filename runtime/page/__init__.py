"""A report of runs as one HTML page, as a file or served while a run goes on.

series           A number of a run over its iterations and its time
run_history      What a run directory tells of its run
lineage          Which run a run goes on from, and the curves of all of them as one
time_shares      Where the time of an iteration goes, actor by actor, from what processes said of
                 their work and waiting
link_traffic     Bytes of arrays on each link in an iteration, as they were planned and as they came
planned_traffic  What a run was planned to send and hold, asked of its program if the reader of the
                 report trusts it
gantt            Ten iterations of a trace: what each actor computed and waited for when
curves           Which curves a report shows of one run, or of several beside each other
charts           Charts as SVG
report_facts     What a report says of one run beside its curves, as plain data for the template
page             The report: one HTML page with everything in it
live             The report of a run that goes on, as a page of `up`

See docs/decisions/watching.md.
"""

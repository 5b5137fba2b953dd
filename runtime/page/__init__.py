"""A report of runs as one HTML page, as a file or served while a run goes on.

series           A number of a run over its iterations and its time, and a reduction to fewer points
                 that look the same
run_history      The history of a run, read from its run directory
lineage          The runs that a run continues, and the curves of all of them as one
time_shares      The time of an iteration, divided into work and waiting for each actor, from the
                 totals that processes reported
link_traffic     The bytes of arrays on each link in one iteration, planned and measured
planned_traffic  The traffic and memory planned for a run, from its program if the reader of the
                 report trusts it
gantt            Ten iterations of a trace, with the times at which each actor computed and waited
curves           The choice of curves that a report shows, for one run or for several in comparison
charts           Charts as SVG, for pages without a script
report_facts     The facts of one run that a report shows in addition to its curves, as plain data
                 for the template
page             The report as one HTML page that holds everything it needs
live             The report of a living run, as a page of `up`
chart_data       The data of a page's charts, as JSON for its script
colours          The colours of curves and bars
differing_keys   The keys of cluster.toml that differ between runs, as a table
headline         The figures that people look for first
confusion        The confusion matrices of a run's last tests
histograms       The histograms of a run's parameters and gradients, from histograms.jsonl, as data
                 for the page

See docs/decisions/watching.md.
"""

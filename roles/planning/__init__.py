"""From [train], or options from Python, to a topology.

planner          From cluster.toml to a topology: read, check, lay out, brief the actors
diagnostics      What a plan finds wrong or worth telling in cluster.toml and its files
by_solver        What a solver says and cluster.toml does not
script_topology  Training from Python
strategies       Presets by name, what may be asked of each, and what its groups make of a solver's
                 momentum
refusals         What cannot go with runs that are there to be compared
host_layout      Lay out: the preset's topology, for the hosts where its actors will live, so that
                 sums are made on each host before they leave it
auto_settings    What is "auto" in [train]
contents         What stands in the files of a job that its net cannot take, found before training
largest          The largest array that a run will send, so that no message meets
                 `links.max_message_bytes` on its way
devices          On which device each actor computes
gradient_links   Which link's gradients have which format
predicted_times  What `plan` tells of time
alternatives     What else the same cluster.toml could choose
measured_runs    How long an iteration of a run took, from its run directory
learnt           In how many iterations runs have reached a target, from their run directories
briefing         Brief the actors
job_checks       Check: the job, its nets and its files against what the preset can lay out
job_reading      Read: what [train] asks becomes a job, and the files of the job are opened, each
                 once

See docs/decisions/tuning.md.
"""

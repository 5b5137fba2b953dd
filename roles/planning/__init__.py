"""From [train], or options from Python, to a topology.

planner  diagnostics         the four stages in a row; what they find wrong or worth telling
job_reading                 read: what [train] asks, as a job; its files, each opened once
job_checks                  check: the job against its nets, its files and the preset
by_solver                   what the solver says and cluster.toml does not
script_topology                   the same from a script
strategies  refusals        what may be asked of a preset; what cannot go together
host_layout                 lay out: the preset's topology, for the hosts where its actors will live
briefing                    brief: what actors are told of tests, checkpoints, formats, devices
auto_settings                       what is "auto", and the tuner that chooses it
contents                    what stands in files and cannot be; warnings of it
largest                     the largest array that a run will send
devices  gradient_links     where actors compute; which link has which format
predicted_times  alternatives       how long it will take; what else could be chosen: groups, presets
measured_runs  learnt            how long a run took; in how many iterations it reached a target

See docs/decisions/tuning.md.
"""

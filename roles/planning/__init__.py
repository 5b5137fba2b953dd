"""From [train], or options from Python, to a topology.

planner  diagnostics            reads net, solver and data once; what it finds wrong or worth telling
by_solver                   what the solver says and cluster.toml does not
script_topology                   the same from a script
strategies  refusals        what may be asked of a preset; what cannot go together
host_layout                       lays it out for the hosts where its actors will live
auto_settings                       what is "auto", and the tuner that chooses it
contents                    what stands in files and cannot be; warnings of it
largest                     the largest array that a run will send
devices  gradient_links     where actors compute; which link has which format
predicted_times  alternatives       how long it will take; what else could be chosen: groups, presets
measured_runs  learnt            how long a run took; in how many iterations it reached a target

See docs/decisions/tuning.md.
"""

"""From [train], or options from Python, to a topology.

planner                     reads net, solver and data once
by_solver                   what the solver says and cluster.toml does not
scripting                   the same from a script
strategies  refusals        what may be asked of a preset; what cannot go together
devices  gradient_links     where actors compute; which link has which format
"""

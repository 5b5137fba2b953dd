"""Who trains what next.

coordinator       the lead: tickets, tests, checkpoints, the end
schedule          what comes next; plain decisions
pass_ledger       which reports are owed and heard
grouping          who is in which group
ticket_batching   how many iterations a lone group gets at once
regroup           other groups and rates while a run goes on: what may be asked
run_settings             the groups and rates as they are; tells everybody of others
probing           a run that is held, tried with other groups and rates, and released
handing_over      a run that ends where another goes on
state_holders           who holds all of it, should somebody die
stragglers            which workers are slower than their peers
timetable         when what is due, as the solver says
testing           what tests say, and what follows of it
gauges            what its page of metrics says of the run
divergence        whether losses say that training diverges

See docs/decisions/training.md.
"""

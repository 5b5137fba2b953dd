"""Who trains what next.

coordinator       the lead: tickets, tests, checkpoints, the end
schedule          what comes next; plain decisions
pass_ledger       which reports are owed and heard
grouping          who is in which group
ticket_batching   how many iterations a lone group gets at once
regroup           other groups and rates while a run goes on
"""

"""Who trains what next.

coordinator      The coordinator: hands out tickets, follows the run, tests, saves, ends
schedule         What the groups do next
pass_ledger      Which reports about passes are owed, which are heard, and what they say together
grouping         Which worker is in which group, and which pass each of them comes to next
ticket_batching  How many iterations a group that is alone is given at once
regroup          Other groups, workers, rates and batches while a run goes on
run_settings     The groups, rates and batch of a run as they are now, and telling everybody who
                 must know of others
probing          A run that is held
handing_over     A run that ends so that another goes on from where it is
state_holders    Who holds all of a run, should somebody of it die
stragglers       Which workers are slower than their peers, for longer than chance makes them
timetable        When what is due in the run of a job, as its solver says, and what is tested
testing          What the tests of a run say
gauges           What a coordinator's page of metrics says of its run
divergence       Whether training diverges, by the losses of its iterations

See docs/decisions/training.md.
"""

"""Who computes gradients.

conv  conv_steps           a member of a compute group, and what it does in an iteration
replica  conv_replica      the whole net each; the conv phase of it
averaging  single          replicas that learn apart; one worker that does it all
passes                     a worker that does pass after pass: the next is asked for while one is computed
model_links  exposure      where layers come from and gradients go; communication that nothing hides

See docs/decisions/training.md.
"""

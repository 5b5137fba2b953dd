"""What the user types: a command a file.

main              collects the commands, runs one, tells its errors
up  check  plan   the runtime's own; a program adds its COMMANDS
after             what `up` tells and does when the run is over
ps  status        live runs, and what one of them is at
report            a page with all that is known of some
scale             one goes on with other workers, or on other machines
watch             more of live runs: events, top, stack, logs, trace
save  down        a checkpoint of one now; ends one
sbatch            the script that `up --sbatch` writes
join              what `up` starts on other machines
completion        what the shell completes
arguments         what several commands take
interrupts        Ctrl-C while no run is there to hear it
"""

"""What the user types: a command a file.

main              collects the commands, runs one, tells its errors
up  check  plan   the runtime's own; a program adds its COMMANDS
ps  status        live runs, and what one of them is at
events  report    what has happened in one; a page with all that is known of some
save  down        a checkpoint of one now; ends one
sbatch            the script that `up --sbatch` writes
join              what `up` starts on other machines
completion        what the shell completes
arguments         what several commands take
interrupts        Ctrl-C while no run is there to hear it
"""

"""What the user types: a command a file.

main        The command line: collects the commands, runs one and tells its errors
up          `up`: start a run and stay with it to its end
check       `check`: what `up` would do with a cluster.toml, without doing it
plan        `plan`: what would run, how much it would carry and how long it would take, in words and
            as drawings
after       What `up` says when a run is over
ps          `ps`: the live runs of this user
status      `status`: what a run is at
report      `report`: what is known of runs as one HTML page
scale       `scale`: a live run goes on with other workers, or on other machines
watch/      Looking at a live run from outside, beyond `ps` and `status`
save        `save`: a checkpoint of a live run now
down        `down`: end a live run
sbatch      `up --sbatch FILE`
join        `join`: be the agent of a machine in a run that `up` leads elsewhere
completion  `completion`: the shell completes the commands and options of `convoy`
arguments   Arguments that several commands take
interrupts  Ctrl-C and SIGTERM while no run is there to hear them
"""

"""What will run, as data.

topology           actors, links, the lead; actors in processes
placement  cores   processes on machines and cores, as the configuration says; what a machine settles itself
program            the module that actors come from; options as their roles declare them
run_plan  machine_files    what every process must know, as a file; where files lie on its machine
roads  host_map       which machines are other hosts, and what that asks of links; who lives on each
credentials        the keys of a run
forecast  room     what a program says of a topology before it runs; is there memory for it
prospects          how long it will take
open_choice             what a program leaves open until its run starts
"""

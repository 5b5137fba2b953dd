"""What will run, as data.

topology           actors, links, the lead; actors in processes
placement          processes on machines and cores, as the configuration says
program            the module that actors come from; options as their roles declare them
run_plan           what every process must know, as a file
forecast  room     what a program says of a topology before it runs; is there memory for it
prospects          how long it will take
choice             what a program leaves open until its run starts
"""

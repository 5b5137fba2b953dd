"""What is known of a run.

rundir  journal  on disk
events           as a stream
console          on a terminal: lines, and a table that stays
picture  screen  columns     what that table is made of; its lines; lines that fit a terminal
"""

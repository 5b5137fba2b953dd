"""A plan for people, in words and pictures.

telling         how long it will take, in words
chart  panels   the same as a chart; several measures side by side
axes            fields with logarithmic axes
geometry  svg   a drawing of the topology
"""

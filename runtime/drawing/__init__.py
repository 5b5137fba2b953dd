"""A plan for people, in words and pictures.

prospect_text         how long it will take, in words
chart  panels   the same as a chart; several measures side by side
axes            fields with logarithmic axes
layout_geometry  svg   a drawing of the topology
"""

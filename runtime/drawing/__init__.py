"""A plan for people, in words and pictures.

prospect_text    Prospects in words
chart            Charts of predictions over what varies
panels           Curves over the same choices side by side, a panel for each measure
axes             Fields with logarithmic axes, and what stands in them, as SVG that needs nothing
                 beside it and is read without colours
layout_geometry  Where the boxes and lines of a drawing of a placement lie
svg              A placement in words, and as an SVG drawing that needs nothing beside it
"""

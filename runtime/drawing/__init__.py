"""The plan of a run in words and pictures.

prospect_text    Predictions in words
chart            Charts of predicted seconds per step over the choices, and of the steps and time to
                 a target
panels           Curves over the same choices side by side, one panel for each measure
axes             Fields with logarithmic axes and their contents, as self-contained SVG that needs
                 no colours
layout_geometry  The positions of the boxes and lines in a drawing of a placement
svg              A placement in words, and as a self-contained SVG drawing
"""

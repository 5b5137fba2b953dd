"""What every kernel runs on: the threads, scratch memory, and how arrays are seen.

team  handover       the one pool of threads, and how they hand each other work
workspace            scratch memory, lent to one operation at a time
fast                 what every family of fast operations stands on
image_layout  operands     how kernels see images, and arrays of any shape
streams              kernels that pass once over arrays, element by element
"""

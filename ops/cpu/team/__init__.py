"""The base of every kernel: the threads, scratch memory, and the layout of arrays.

team          The one thread pool of a process
handover      How a team's threads hand each other work, as LLVM IR
workspace     Scratch memory of one backend
fast          The base of every family of fast operations
image_layout  How kernels see images
operands      How kernels see arrays of any shape
streams       Kernels that pass once over arrays of one shape, element by element
widened       Operations of bfloat16 images that no kernel takes, for example images in another
              order of axes
mixed_images  Images of an operation of which some are float32 and some bfloat16
"""

"""Wire formats of gradients. Each has a file, and a line here in the order of the docs' table.

format     The base class of the wire formats of gradients
float32    Numbers as they are: float32, or float64 in a run in double precision
float16    Two bytes a number, with more digits and a small range
bfloat16   Two bytes a number, with the range of float32: its upper half
int8       One byte for each number, and one step for each block
int4       Half a byte for each number, and one step for each block
one_bit    One bit for each number, and two means for each block
threshold  An index and a sign for each number beyond +-tau

See docs/decisions/sums.md.
"""

# isort: off
from roles.formats import float32 as float32
from roles.formats import float16 as float16
from roles.formats import bfloat16 as bfloat16
from roles.formats import int8 as int8
from roles.formats import int4 as int4
from roles.formats import one_bit as one_bit
from roles.formats import threshold as threshold

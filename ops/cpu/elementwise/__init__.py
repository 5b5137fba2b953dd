"""Operations that pass over memory once or twice.

activation  dropout  rearrange   ReLU, dropout, sums and scales; images to rows and back
pooling  windows             pooling, and its kernels
lrn  normalise  norm_scale   normalisation; batch norm with its scale, addend and rectifier
reduce  sums                 sums per channel, and their kernels
softmax  embedding           softmax and its loss; gradients of tables
momentum_update  update      SGD and Nesterov; the solvers with a rate for each number
compression  halves  feedback   smaller forms of numbers: two bytes, one bit, only the large ones
"""

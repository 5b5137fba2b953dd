"""Every operation written plainly with NumPy, one family a file: the reference of the fast kernels.

conv  deconv  lowering        convolution, its transpose, images to matrices
dense  embed  recurrent       matrix products, tables, LSTM and RNN
pool  stochastic  lrn         windows over images
normalise  reduction          statistics and sums over axes
activation  pointwise  eltwise  broadcast   element by element
philox                        dropout, and the numbers that it draws
loss  class_loss  distance_loss             softmax and the losses
fused  rearrange              several operations as one; other orders of memory
update  compression           the solvers; smaller forms of gradients
"""

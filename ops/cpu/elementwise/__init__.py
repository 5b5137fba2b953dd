"""Operations that pass over memory once or twice.

activation        ReLU, Clip, weighted sums, scale and bias per channel, copies
dropout           Dropout: numbers are drawn as they are used (`reference.philox`), four for each
                  turn of the loop
rearrange         Images to the rows of a dense layer and back
pooling           Max and average pooling, forward and backward, of images with channels side by
                  side
windows           Kernels of pooling
lrn               Local response normalisation across channels, forward and backward, one pass over
                  memory each
normalise         Batch normalisation: two passes over memory each way, one for the sums and one for
                  the result
norm_scale        Batch norm, scale, bias, addend and activation in the passes of batch norm alone
reduce            Sums per channel
sums              Kernels that sum over rows of channels: x, or x and x * y, or the moments of x
softmax           Softmax of rows and its loss for labels in float32, as a net has them, without an
                  intermediate array
embedding         The gradient of a table (Caffe's `Embed`)
update            Caffe's solvers with a rate for each number, each in one pass over a parameter,
                  its gradient and its histories
compression       Smaller forms of float32 arrays, by kernels
halves            Kernels between float32 and the formats of two bytes
feedback          Kernels that encode numbers coarsely and keep the error
momentum_update   Caffe's solvers with momentum, SGD and Nesterov, each in one pass over a
                  parameter, its gradient and its history
gates             Activations that multiply x by a gate, and the gate HardSigmoid
group_norm        Group normalisation of images, by the kernels of batch normalisation
decoupled_update  Updates with decoupled weight decay (SGDW, NesterovW, AdamW), each in one pass
                  over a parameter, its gradient and its histories
joined            The activations that batch norm computes in its own passes, as formulas over
                  vectors
rectified_sums    The gradient of a rectifier over a sum, with its sums for batch norm, in one pass
layer_norm        Layer normalisation along the axis whose numbers lie side by side
plane_factors     Factors of planes, as in squeeze and excitation
scaled_blocks     Kernels between float32 and codes of 8 or 4 bits, with one step for each block of
                  numbers
"""

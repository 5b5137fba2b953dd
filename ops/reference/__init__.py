"""Every operation in plain NumPy, one family per file: the reference of the fast kernels.

conv              Convolution forward and backward by batched lowering and one GEMM per part of the
                  batch
depthwise         Depthwise convolution: each output reads one channel, so nothing is summed over
                  channels
deconv            Transposed convolution (Caffe's Deconvolution)
lowering          Lowering and lifting
dense             Fully connected layers (Caffe's InnerProduct), forward and backward
embed             Rows of a table looked up by number, and the gradient of the table (Caffe's Embed)
recurrent         Caffe's LSTMLayer and RNNLayer over whole sequences, forward and backward through
                  time
pool              Max and average pooling, forward and backward, as Caffe defines them, and the
                  backward pass of all pooling by places
adaptive_pool     Average pooling to a given size, whatever the size of the images
stochastic        Stochastic pooling, forward (Zeiler and Fergus 2013, as Caffe does it)
lrn               Local response normalisation, forward and backward, as Caffe defines it
normalise         Normalisation by mean and variance
row_norm          Normalisation within a row
reduction         Reductions of trailing axes, places of the largest values, sums per channel and of
                  all (Caffe's Reduction, ArgMax)
activation        Activations with kinks, forward and backward: ReLU, PReLU, ELU, Threshold, Clip
gates             Activations that multiply x by a gate between 0 and 1, forward and backward
normal            The cumulative function and the density of the normal distribution, for GELU
pointwise         Smooth functions of single elements and their gradients
eltwise           Several arrays of one shape made into one, element by element
broadcast         Scale and bias along some axes (Caffe's Scale and Bias layers), forward and
                  backward
philox            Dropout, of elements or of rows, by numbers that follow from (key, row, place in
                  the row)
loss              Softmax along any axis, and over axis 1 its cross-entropy loss and accuracy
                  (Caffe's Softmax, SoftmaxWithLoss, Accuracy)
soft_loss         The softmax loss against soft targets, over axis 1
class_loss        Losses of class probabilities other than the softmax loss
distance_loss     Losses that compare arrays element by element
fused             Several operations that follow each other in most nets, under one name
rearrange         The same numbers in another order of memory
update            Parameter updates (Caffe's solvers) and the addition of gradients
compression       Smaller forms of float32 arrays
decoupled_update  Parameter updates with decoupled weight decay, as in PyTorch
whole_update      Parameter updates in which every number depends on the whole parameter
scaled_codes      Integer codes of float32 arrays
pixels            The transform of images of bytes
mixed_images      Images of an operation of which some are float32 and some bfloat16
"""

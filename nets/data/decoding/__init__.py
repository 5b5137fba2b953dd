"""The decoding of encoded pictures: of one picture, of a batch, and in separate processes.

decode     Decoding of image files to arrays, as Caffe has them through OpenCV
encoded    Encoded pictures of a batch, and the function that decodes them to one array
processes  Processes that decode pictures next to the threads that read
process    A process that decodes pictures for `processes`, until its input ends
"""

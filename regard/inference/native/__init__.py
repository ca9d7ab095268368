"""What is faster in C: inner loops of decoding, compiled on first use where there is a compiler. Nothing needs them.

*.c, *.h    the loops; kernels.h says which are where
build       source -> library, once a machine, tried out in a child process first
kernels     the library, and weights as its loops read them
tensors     the loops, for torch's tensors
stack       a pass through all blocks of a model
search      a whole beam search
"""

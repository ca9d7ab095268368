"""What is faster in C: inner loops of decoding, compiled on first use where there is a compiler. Nothing needs them.

kernels.c   the loops
build       source -> library, once a machine, tried out in a child process first
kernels     the library's functions, for tensors
"""

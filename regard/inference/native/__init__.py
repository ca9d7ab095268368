"""Inference kernels in C, compiled on first use if there is a compiler. Everything also runs without them.

c/          the kernels; kernels.h lists them
build       compiles the library once per machine, and tests it in a child process
selftest    what that child process runs
kernels     the library's functions, and the weights of linear layers
tensors     single kernels for torch tensors
layers      embeddings, a pass through all blocks of a model, the encoder
search      a complete beam search
"""

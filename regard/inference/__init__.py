"""Run a model fast: the seam between what is computed and how, and the scheduler above it.

backend          the seam: encode, step, reorder, perhaps a whole search
torch_backend    any model on any device, through its modules; the reference
native_backend   translation models on a CPU, in C: their weights as the C code reads them, a whole search
native_step      the same one step at a time, for searches with rules
native_linear    int8 linear layers on the C kernels, inside torch modules
requests         a request, its handle (result, stream, cancel, deadline), and the queue
worker           the requests under way on one thread
scheduler        continuous batching: takes requests while it runs
native/          the C code, its build and its self-test
"""

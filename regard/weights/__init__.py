"""Names on disk <-> names in memory. Tensors travel as safetensors; nothing is ever unpickled.

tensors      safetensors files, sharded or not, and how they are checked against a model
directory    regard's own model directory
huggingface  directories of `transformers`, read and written through maps/
llama2c      llama2.c's .bin, read
maps/        one two-column table of names a family, used in both directions
"""

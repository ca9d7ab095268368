"""Names on disk <-> names in memory. Tensors travel as safetensors; nothing is ever unpickled.

directory    what a model directory is, and what its settings say
arrays       its weights without torch; tensors  with it, checked against a model
own          regard's own model directory
huggingface  directories of `transformers`, read and written through maps/; foreign  what they say, without torch
llama2c      llama2.c's .bin, read
maps/        one two-column table of names a family, used in both directions
"""

"""Models on disk <-> models in memory. Weights are safetensors; nothing is ever unpickled.

model_io       read any model, write regard's or Hugging Face's format
directory      what a model directory contains; its settings, read without torch
safetensors_files  weights as torch tensors, checked against a model
regard_format  regard's own model directory
huggingface    directories of `transformers`, read and written through maps/; hf_config  their settings, without torch
llama2c        llama2.c's .bin files, read only
average        the mean of several models; quantize  int8 weights; shortlist  likely translations of each token
maps/          one two-column table of names per model type, used in both directions
"""

"""Tensors -> tensors. Every part takes plain numbers, knows no family, and can be used on its own.

embeddings  tokens, segments and image patches -> vectors
positions   sinusoidal, learned, rotary, ALiBi; waves  what the sinusoidal ones are
masks       who may look at whom; the only place where masks are made
attend      softmax(q k / sqrt(K)) v, fused or traced
attention   queries, keys, values, heads; self and cross
feedforward what happens to each position alone
norms       LayerNorm, RMSNorm
dropout     forgetting on purpose, while training
block       the Transformer block, from those parts
cache       keys and values that were computed before
trace       where a look inside is written down
"""

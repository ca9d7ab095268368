"""Tensors -> tensors. Every part takes plain numbers, is independent of the model family, and works on its own.

embeddings  tokens, segments and image patches -> vectors; sinusoidal and learned positions, which are added to them
sinusoids   the table of the sinusoidal positions
positions   rotary and ALiBi, which act inside attention
attention   masks; softmax(q k / sqrt(K)) v, fused or traced; queries, keys, values, heads; self and cross
feedforward applied to each position separately
norms       LayerNorm, RMSNorm
dropout     dropout that is fast on a CPU
bf16_linear linear layers that train with bfloat16 products
int8        linear layers and embeddings with int8 weights
block       the Transformer block, built from these parts, and the stack of N blocks
kv_cache    keys and values of earlier tokens; beam_cache  those of beam search
trace       records intermediate tensors
"""

"""Logits -> tokens. Sees a step function, never a model family, never text.

settings         SearchSettings: the one list of search settings
search_loop      prompts in, step requests out, logits back: what a search gets and asks for
rules            which token may come next: pure functions from logits to logits, in a visible list
topk             the best next tokens and their log-probabilities
greedy, sample   one row per text, on the same generation_loop
beam             several rows per text, the best kept; the reference for the native search
search           settings -> one of the three
hypothesis       what a search returns, and what can be wrong with it: loops, length, copies
score, align     log-probabilities of a given text; attention -> word alignments
"""

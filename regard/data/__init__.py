"""files -> batches.

sources        files -> pairs of texts, one at a time; the settings of a recipe's [data]
split          hold out validation and test pairs that share no sentence with training
stats          counts of pairs: read, kept, dropped and why
token_cache    pairs -> tokens on disk, filtered and without duplicates
corpus         tokens on disk -> rows, segmented again in every epoch with subword dropout
batching       rows -> batches, in an order that is a function of the seed and the epoch
"""

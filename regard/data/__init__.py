"""files -> batches.

sources     files -> pairs of texts, one at a time; what a recipe may say about them
account     what was read, kept and dropped, and why
ragged      rows of different lengths, laid end to end
cache       pairs -> tokens on disk, filtered and without duplicates
corpus      tokens on disk -> rows, cut anew in every epoch if asked to
batching    rows -> batches, in an order that is a function of the seed and the epoch
"""

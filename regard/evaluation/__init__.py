"""Scores that others can compare with, each with the signature that says how it was computed.

test_set.py      a test set, line by line
decode.py        sources -> translations, with their speed
translation.py   translations and references -> BLEU, chrF, TER; two systems -> is the difference significant?
likelihood.py    given pairs -> log-probabilities, perplexity
calibration.py   log-probabilities -> confidence
validation.py    loss and BLEU during training
rewards.py       sampled translations -> rewards, for training
doctor.py        what averaging, beam, length penalty, casing and tokenization each change
"""

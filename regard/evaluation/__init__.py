"""Scores that others can compare with, each with the signature that says how it was computed.

aligned_files.py a test set, line by line
translate_test_set.py sources -> translations, with their speed
metrics.py       translations and references -> BLEU, chrF, TER; two systems -> is the difference significant?
likelihood.py    given pairs -> log-probabilities, perplexity
calibration.py   log-probabilities -> confidence
validation.py    loss and BLEU during training
rewards.py       sampled translations -> rewards, for training
bleu_doctor.py   what averaging, beam, length penalty, casing and tokenization each change
"""

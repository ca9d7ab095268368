"""How good is it? Figures that others can compare with, each with the signature that says how it was made.

files.py         a test set, line by line
outputs.py       sources -> translations, with their speed
translation.py   translations and references -> BLEU, chrF, TER; two systems -> is the difference more than luck?
likelihood.py    given pairs -> log-probabilities, perplexity
doctor.py        what averaging, beam, length penalty, casing and tokenisation each change
"""

"""Logits -> tokens. Sees a step function, never a family, never text.

interface.py   what a search is given (a step, an opening); hypothesis.py  what it gives
settings.py    how to search, as one frozen set of settings
rules.py       what may be said next: small pure functions from logits to logits, in a visible list
follow.py      one row a sentence, one token a step: the loop that greedy.py and sample.py share
beam.py        several rows a sentence, the best kept
search.py      the door: settings -> one of the three
engine.py      many texts and a model that is never idle; asked.py  its worker for all three
score.py       log-probabilities of a text that is given; align.py  attention -> word alignments
"""

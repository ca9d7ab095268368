"""Learning from data: a loop, and what is handed to it.

settings     what a recipe may say about training
losses       logits -> one number, a slice of the vocabulary's logits at a time
optim        AdamW and the schedules
state        everything that is needed to go on, on disk: whole, hashed, or not there
journal      what happened, line by line
distributed  torchrun's processes
loop         the loop
"""

"""text <-> tokens. Start at `tokenizer.py`; there is no torch in this folder."""

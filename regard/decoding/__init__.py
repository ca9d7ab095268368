"""Logits -> tokens. Sees a step function, never a family."""

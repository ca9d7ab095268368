"""Look inside a model: one forward pass as plain values, and as a page."""

"""Run a model fast: the seam between what is computed and how, and the scheduler above it."""

"""What this machine can run: CPU probe, device and dtype, thread counts, a thread pool."""

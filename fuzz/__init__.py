"""Hostile files, thousands a minute: whatever they hold, regard prints one clear line or does its work.

    python -m fuzz [KIND …] [--count N] [--seconds S] [--seed N]

case.py            a case: a sample, and the files that differ from it; kept as a small JSON file
mutate.py          bytes, JSON, safetensors and texts -> hostile ones
samples.py         tiny models of every family and tokenizers of every kind, as the tests make them
directories.py tokenizers.py recipes.py documents.py    one kind of input each
native.py          random native models and searches
sanitize.py        run a command with the C library built under a sanitizer
regard_calls.py    run regard in this process; what counts as a failure
workers.py         cases in child processes, with limits on time and memory
minimise.py        a failing case -> a smaller one that fails alike

A signal, a traceback, exit code 70, a file left behind, too much time or memory is a failure.
"""

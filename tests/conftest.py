"""For every test: what this machine only claims to run is switched off first, as `regard.load` and the verbs do it."""

from regard.cpu import capabilities

capabilities.prepare()  # before torch's first use

"""The command line: one small file a verb. Each parses, calls, shows; none of them computes."""

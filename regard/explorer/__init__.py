"""Looking inside: a forward pass, told as a story of stages."""

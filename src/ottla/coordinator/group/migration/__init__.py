"""Online migration between classic and consumer groups, and classic-protocol members of consumer groups."""

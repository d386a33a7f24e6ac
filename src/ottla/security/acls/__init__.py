"""Access control lists: entries, their index, filters, and what a principal may do."""

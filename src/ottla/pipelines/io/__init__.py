"""The topics and tables that flows read and write, and the connectors that reach them."""

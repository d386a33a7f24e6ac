"""Records of topics: read between positions, filter, decode, format, clone, and produce."""

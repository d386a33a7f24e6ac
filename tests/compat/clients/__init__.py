"""Programs on the clients of other languages, and how they are built."""

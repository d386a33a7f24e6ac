"""The transaction coordinator: the owner of each transactional id, and the state of its transaction."""

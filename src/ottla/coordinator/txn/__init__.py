"""The transaction coordinator: who may write under a transactional id, and how its transaction ends."""

"""Credentials for a secured cluster: what `ottla secure init` and `ottla up --secure` create."""

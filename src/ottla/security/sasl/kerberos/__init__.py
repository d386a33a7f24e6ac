"""GSSAPI (Kerberos): settings, names of users, both sides of the exchange, and the adapter of the library."""

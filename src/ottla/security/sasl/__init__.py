"""SASL mechanisms without input and output: PLAIN, SCRAM, OAUTHBEARER and GSSAPI, for both sides of a connection."""

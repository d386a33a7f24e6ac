"""The settings of a node at its start: properties files, their precedence, listeners, voters, SASL, authorizer."""

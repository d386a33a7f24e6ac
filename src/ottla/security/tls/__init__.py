"""TLS: key stores, contexts of OpenSSL, names in certificates, principals of clients, encrypted streams.

Nothing here uses a socket or the event loop. The broker (`broker/net`), the connections between nodes (`peer`) and the
raw client share it.
"""

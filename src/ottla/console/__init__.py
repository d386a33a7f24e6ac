"""Web console: pages about a cluster, rendered on the server and updated over one event stream per page."""

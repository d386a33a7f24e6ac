"""The web server of the console: application, access rules, event streams."""

"""Pages of the console: each module has the context of one page, its live fragments and its actions."""

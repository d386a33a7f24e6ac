"""The commands `produce` and `consume`, and the forms in which records are printed."""

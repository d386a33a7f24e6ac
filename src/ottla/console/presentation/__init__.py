"""The form in which pages show values: templates, formats, charts, records, navigation."""

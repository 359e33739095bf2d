"""The parts of a report's page: its template, its style, and the script that prices other values in it."""

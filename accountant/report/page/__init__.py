"""The parts of a report's page: template, style, script (page.js, format.js), and the script's accounting engine."""

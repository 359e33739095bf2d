"""Print the app's directory: ``flwr run "$(python -m mechanisms.flower)" CONNECTION``."""

from mechanisms.flower import APP

print(APP)

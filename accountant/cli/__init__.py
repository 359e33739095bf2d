"""The `accountant` command and its subcommands."""

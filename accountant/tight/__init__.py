"""The certified route: closed forms, privacy-loss distributions, and the game of screenings."""

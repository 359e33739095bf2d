"""Events: one randomized release each. See `accountant.events.event` for what all of them answer."""

"""The route over Rényi orders: a curve is minimised over real orders and converted to epsilon or delta."""
